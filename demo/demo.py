"""The main job, end to end: a recording through an inverse STFT written as one transposed convolution.

Vocoders with an iSTFT head end in this layer. A spectrum of n_fft/2+1 bins becomes 2*(n_fft/2+1) channels,
real parts then imaginary parts; the weight of channel c is the inverse DFT's row for it times the window, so
that

    y[o] = sum over frames f and channels c of x[c, f] * w[c, o - f*hop]

is overlap-add; dividing by the overlapped squared window undoes the window's gain (Griffin and Lim 1984,
doi:10.1109/TASSP.1984.1164317). Analysis is float64 NumPy; the synthesis is `tconv run` in float32.

    make demo        (build/demo/ receives the WAV and the picture)
"""

import argparse
import json
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np

import picture

ROOT = Path(__file__).resolve().parents[1]
TCONV = ROOT / "build" / "program" / "tconv"
RECORDING = Path("/usr/share/sounds/alsa/Front_Center.wav")  # Debian's alsa-utils: a voice, 48 kHz
SEED_PROBLEMS = ("n1 ci128 co128 l65536 k3 s1 p0 f32", "n1 ci32 co64 l131072 k5 s1 p0 d3 f32",
                 "n1 ci32 co64 l131072 k3 s2 p1 d2 f32")
N_FFT, HOP = 1024, 256


def tconv(*arguments):
    """Runs the command line and returns what it printed; its own words say what went wrong."""
    print("$ tconv " + " ".join(f'"{a}"' if " " in a else a for a in map(str, arguments)), flush=True)
    done = subprocess.run([TCONV, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"tconv {arguments[0]} failed with exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def read_wav(path):
    with wave.open(str(path)) as file:
        if file.getsampwidth() != 2:
            sys.exit(f"{path}: 16-bit samples are needed, these have {8 * file.getsampwidth()}")
        samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        return samples.reshape(-1, file.getnchannels())[:, 0] / 32768.0, file.getframerate()


def write_wav(path, samples, rate):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2").tobytes())


def hann():
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)


def analyse(signal):
    """STFT in float64, frames centred on multiples of the hop: (bins, frames), and the padded length."""
    padded = np.pad(signal, (N_FFT // 2, N_FFT // 2 + (-len(signal)) % HOP), mode="reflect")
    frames = 1 + (len(padded) - N_FFT) // HOP
    index = HOP * np.arange(frames)[:, None] + np.arange(N_FFT)
    return np.fft.rfft(padded[index] * hann(), axis=1).T


def synthesis_weights():
    """(2*bins, 1, n_fft): the inverse real DFT's rows for real and imaginary parts, times the window."""
    bins = N_FFT // 2 + 1
    angle = 2 * np.pi * np.outer(np.arange(bins), np.arange(N_FFT)) / N_FFT
    share = np.full((bins, 1), 2.0 / N_FFT)  # a bin and its mirror image
    share[[0, -1]] = 1.0 / N_FFT             # the first and last have none
    rows = np.concatenate([share * np.cos(angle), -share * np.sin(angle)])
    return (rows * hann())[:, None, :]


def overlapped_window(frames, length):
    total = np.zeros((frames - 1) * HOP + N_FFT)
    for frame in range(frames):
        total[frame * HOP:frame * HOP + N_FFT] += hann() ** 2
    return total[N_FFT // 2:N_FFT // 2 + length]


def resynthesise(spectrum, length, folder):
    frames = spectrum.shape[1]
    np.save(folder / "spectrum.npy", np.concatenate([spectrum.real, spectrum.imag])[None].astype(np.float32))
    np.save(folder / "weights.npy", synthesis_weights().astype(np.float32))
    print(tconv("run", "--input", folder / "spectrum.npy", "--weight", folder / "weights.npy", "--stride", HOP,
                "--padding", N_FFT // 2, "--output", folder / "overlapped.npy"), end="")
    overlapped = np.load(folder / "overlapped.npy").astype(np.float64).reshape(-1)[:length]
    return overlapped / overlapped_window(frames, length)


def measured(problem):
    """The benchmark's row for one call with weights packed beforehand (or none to pack)."""
    rows = json.loads(tconv("bench", problem, "--json"))
    return next((row for row in rows if row["weights"] == "packed"), rows[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recording", type=Path, default=RECORDING, help="a 16-bit WAV file")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "demo")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    print(tconv("info"), end="")
    for problem in SEED_PROBLEMS:
        print(tconv("plan", problem), end="")
        print(tconv("check", problem), end="")

    signal, rate = read_wav(options.recording)
    spectrum = analyse(signal)
    result = resynthesise(spectrum, len(signal), options.folder)
    error = result - signal
    snr = 10 * np.log10(np.sum(signal**2) / np.sum(error**2))
    problem = f"n1 ci{N_FFT + 2} co1 l{spectrum.shape[1]} k{N_FFT} s{HOP} p{N_FFT // 2} f32"
    row = measured(problem)
    times = len(signal) / rate / row["seconds"]

    write_wav(options.folder / "resynthesis.wav", result, rate)
    picture.draw(options.folder / "demo.png", signal, result, rate, N_FFT, HOP)
    print(f"recording   {options.recording}, {len(signal) / rate:.2f} s at {rate} Hz")
    print(f"layer       {problem}, kernel {row['kernel']}")
    print(f"SNR         {snr:.1f} dB (float32 synthesis against the recording)")
    print(f"speed       {row['seconds'] * 1e3:.3f} ms a call, {times:.0f} times faster than real time")
    print(f"written     {options.folder}/resynthesis.wav, {options.folder}/demo.png")
    if snr < 100:
        sys.exit("the resynthesis is off: its SNR should be over 100 dB")


if __name__ == "__main__":
    main()
