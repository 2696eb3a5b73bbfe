"""The demo's picture: waveforms, spectrograms and the error between recording and resynthesis."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

INK, BLUE, ORANGE = "#222222", "#2563a8", "#c2571a"


def decibels(values):
    return 20 * np.log10(np.maximum(np.abs(values), 1e-12))


def spectrogram(axis, signal, rate, n_fft, hop, title):
    axis.set_facecolor("black")  # digital silence has no level at all
    with np.errstate(divide="ignore"):
        _, _, _, image = axis.specgram(signal, NFFT=n_fft, Fs=rate, noverlap=n_fft - hop, cmap="magma",
                                       vmin=-150, vmax=-40)
    axis.set(title=title, xlabel="time (s)", ylabel="frequency (kHz)", ylim=(0, 12000),
             xlim=(0, len(signal) / rate))
    axis.set_yticks(range(0, 12001, 3000), [f"{f // 1000}" for f in range(0, 12001, 3000)])
    return image


def waveform(axis, seconds, signal, color, title):
    axis.plot(seconds, signal, color=color, linewidth=0.5)
    axis.set(title=title, xlabel="time (s)", ylabel="amplitude", ylim=(-0.6, 0.6), xlim=(0, seconds[-1]))
    axis.grid(alpha=0.2)


def error_levels(axis, seconds, signal, error):
    """Peak levels of signal and error over 10 ms, with the rounding of 16-bit audio as a yardstick."""
    step = max(1, int(0.01 / (seconds[1] - seconds[0])))
    count = len(signal) // step
    blocks = lambda values: np.abs(values[:count * step]).reshape(count, step).max(axis=1)
    middle = seconds[:count * step:step]
    axis.plot(middle, decibels(blocks(signal)), color=BLUE, linewidth=1)
    axis.plot(middle, decibels(blocks(error)), color=ORANGE, linewidth=1)
    axis.axhline(decibels(0.5 / 32768), color=INK, linewidth=0.8, linestyle="--")
    end = seconds[-1]
    for level, text, color in ((decibels(blocks(signal)).max() + 6, "recording", BLUE),
                               (decibels(blocks(error)).max() + 6, "error", ORANGE),
                               (decibels(0.5 / 32768) + 4, "half a step of 16-bit audio", INK)):
        axis.text(end * 0.985, level, text, color=color, ha="right", va="bottom")
    axis.set(title="Peak level in 10 ms", xlabel="time (s)", ylabel="dB of full scale", xlim=(0, end),
             ylim=(-200, 30))
    axis.grid(alpha=0.2)


def draw(path, signal, result, rate, n_fft, hop):
    seconds = np.arange(len(signal)) / rate
    error = result - signal
    figure, axes = plt.subplots(3, 2, figsize=(12, 10), constrained_layout=True)
    waveform(axes[0, 0], seconds, signal, BLUE, "Recording")
    waveform(axes[0, 1], seconds, result, BLUE, "Resynthesis: inverse STFT as one transposed convolution")
    spectrogram(axes[1, 0], signal, rate, n_fft, hop, "Recording")
    image = spectrogram(axes[1, 1], result, rate, n_fft, hop, "Resynthesis")
    figure.colorbar(image, ax=axes[1, :], label="dB")
    scale = 10.0 ** np.floor(np.log10(np.abs(error).max()))
    axes[2, 0].plot(seconds, error / scale, color=ORANGE, linewidth=0.5)
    axes[2, 0].set(title="Error: resynthesis minus recording", xlabel="time (s)", xlim=(0, seconds[-1]),
                   ylabel=f"error, in {scale:.0e} of full scale")
    axes[2, 0].grid(alpha=0.2)
    error_levels(axes[2, 1], seconds, signal, error)
    figure.savefig(path, dpi=110)
    plt.close(figure)
