#include "cpu/threads/usable_cores.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

namespace tconv::cpu {
namespace {

constexpr std::size_t kBits = 8 * sizeof(unsigned long);

CpuMask affinity_of(pid_t thread) {
  // The kernel refuses masks smaller than its own.
  for (std::size_t words = 1024 / kBits; words <= (std::size_t{1} << 20) / kBits; words *= 2) {
    CpuMask mask{std::vector<unsigned long>(words)};
    auto* set = reinterpret_cast<cpu_set_t*>(mask.words.data());
    if (sched_getaffinity(thread, words * sizeof(unsigned long), set) == 0) return mask;
    if (errno != EINVAL) break;
  }
  return {};
}

// One version of the hierarchy, as the process sees it.
struct Hierarchy {
  bool v2;
  std::string path = {};   // of the process
  std::string mount = {};  // where it is mounted, and
  std::string base = {};   // which part of it
};

bool names_cpu(std::string list) {
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream words(list);
  for (std::string word; words >> word;) {
    if (word == "cpu") return true;
  }
  return false;
}

// /proc/self/cgroup: "4:cpu,cpuacct:/path", for v2 "0::/path".
bool find_path(const std::string& root, Hierarchy& h) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (h.v2 ? line.substr(0, second) != "0:" : !names_cpu(controllers)) continue;
    h.path = line.substr(second + 1);
    return true;
  }
  return false;
}

// /proc/self/mountinfo: "id parent device base mount options [tags] - type source super-options".
bool find_mount(const std::string& root, Hierarchy& h) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream front(line.substr(0, dash)), back(line.substr(dash + 3));
    std::string skipped, base, mount, type, source, options;
    front >> skipped >> skipped >> skipped >> base >> mount;
    back >> type >> source >> options;
    if (h.v2 ? type != "cgroup2" : type != "cgroup" || !names_cpu(options)) continue;
    h.base = base;
    h.mount = mount;
    return true;
  }
  return false;
}

// CPUs granted by one group; 0: no limit there.
double quota_of(const std::string& directory, bool v2) {
  double quota = 0, period = 0;
  if (v2) {
    std::ifstream(directory + "/cpu.max") >> quota >> period;  // "max" leaves 0
  } else {
    std::ifstream(directory + "/cpu.cfs_quota_us") >> quota;  // -1: none
    std::ifstream(directory + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

// The path below the mount point. A container sees at most the mount point's own group.
std::string below_mount(const Hierarchy& h) {
  const std::string base = h.base == "/" ? "" : h.base;
  if (h.path.compare(0, base.size(), base) != 0) return "";
  std::string path = h.path.substr(base.size());
  if (path.find("/..") != std::string::npos || (!path.empty() && path[0] != '/')) return "";
  return path == "/" ? "" : path;
}

double tightest(const std::string& root, Hierarchy h) {
  if (!find_path(root, h) || !find_mount(root, h)) return 0;
  double least = 0;
  for (std::string path = below_mount(h);; path.erase(path.rfind('/'))) {
    const double quota = quota_of(root + h.mount + path, h.v2);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
    if (path.empty()) return least;
  }
}

}  // namespace

int CpuMask::count() const {
  int bits = 0;
  for (const unsigned long word : words) bits += __builtin_popcountl(word);
  return bits;
}

CpuMask process_affinity() {
  CpuMask mask = affinity_of(getpid());
  const CpuMask own = affinity_of(0);
  if (mask.words.size() < own.words.size()) mask.words.resize(own.words.size());
  for (std::size_t i = 0; i < own.words.size(); ++i) mask.words[i] |= own.words[i];
  return mask;
}

void set_affinity(const CpuMask& mask) {
  if (mask.words.empty()) return;
  sched_setaffinity(0, mask.words.size() * sizeof(unsigned long),
                    reinterpret_cast<const cpu_set_t*>(mask.words.data()));
}

int current_cpu() {
  return sched_getcpu();
}

KeptOff::KeptOff(int thread, int cpu) : thread_(thread) {
  if (thread == 0 || cpu < 0 || cpu >= CPU_SETSIZE) return;
  if (sched_getaffinity(thread, sizeof(before_), &before_) != 0 || !CPU_ISSET(cpu, &before_)) return;
  cpu_set_t others = before_;
  CPU_CLR(cpu, &others);
  on_ = CPU_COUNT(&others) > 0 && sched_setaffinity(thread, sizeof(others), &others) == 0;
}

KeptOff::~KeptOff() {
  if (on_) sched_setaffinity(thread_, sizeof(before_), &before_);
}

double cgroup_quota(const std::string& root) {
  const double v2 = tightest(root, {true}), v1 = tightest(root, {false});
  return v1 == 0 || (v2 > 0 && v2 < v1) ? v2 : v1;
}

int usable_cores() {
  int cores = process_affinity().count();
  if (cores == 0) cores = static_cast<int>(std::thread::hardware_concurrency());
  const double quota = cgroup_quota();
  if (quota > 0) cores = static_cast<int>(std::min<double>(cores, std::ceil(quota)));
  return std::max(cores, 1);
}

}  // namespace tconv::cpu
