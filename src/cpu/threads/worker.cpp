#include "cpu/threads/worker.hpp"

#include <pthread.h>
#include <signal.h>

namespace tconv::cpu {
namespace {

// All but the faults that a thread causes itself, whose handlers (crash reports, sanitizers) must still run.
sigset_t host_signals() {
  sigset_t set;
  sigfillset(&set);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&set, fault);
  return set;
}

bool real_time() {
  int policy = SCHED_OTHER;
  sched_param parameters{};
  return pthread_getschedparam(pthread_self(), &policy, &parameters) == 0 &&
         (policy == SCHED_FIFO || policy == SCHED_RR);
}

}  // namespace

bool start_thread(void* (*main)(void*), void* argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (real_time()) {
    // An audio callback's priority, kept by workers that spin, would starve the machine.
    pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  }
  const sigset_t blocked = host_signals();
  sigset_t own;
  pthread_sigmask(SIG_BLOCK, &blocked, &own);  // the new thread inherits this mask
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, main, argument);
  pthread_sigmask(SIG_SETMASK, &own, nullptr);
  pthread_attr_destroy(&attributes);
  return error == 0;
}

}  // namespace tconv::cpu
