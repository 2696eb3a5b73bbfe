// What the process may use of the machine: control groups of both versions, read from trees made here.
#include "cpu/threads/usable_cores.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tconv::cpu {
namespace {

namespace fs = std::filesystem;

// A root of its own for /proc and the groups.
class Root {
 public:
  Root() {
    std::string name = (fs::temp_directory_path() / "tconv_groups_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Root() { fs::remove_all(path_); }
  Root& file(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path_ + path).parent_path());
    std::ofstream(path_ + path) << text << "\n";
    return *this;
  }
  double quota() const { return cgroup_quota(path_); }

 private:
  std::string path_;
};

constexpr const char* kMount2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
constexpr const char* kMount1 =
    "31 23 0:27 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory\n"
    "32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:6 - cgroup cgroup rw,cpu,cpuacct";

TEST(CgroupQuota, NoGroupsNoLimit) {
  EXPECT_EQ(Root().quota(), 0);
  EXPECT_EQ(Root().file("/proc/self/cgroup", "0::/").file("/proc/self/mountinfo", kMount2).quota(), 0);
}

TEST(CgroupQuota, Version2TakesTheTightestGroupAbove) {
  Root root;
  root.file("/proc/self/cgroup", "0::/a.slice/b.scope").file("/proc/self/mountinfo", kMount2);
  root.file("/sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000");
  EXPECT_EQ(root.quota(), 0);
  root.file("/sys/fs/cgroup/a.slice/b.scope/cpu.max", "350000 100000");
  EXPECT_EQ(root.quota(), 3.5);
  root.file("/sys/fs/cgroup/a.slice/cpu.max", "200000 100000");
  EXPECT_EQ(root.quota(), 2);
  root.file("/sys/fs/cgroup/a.slice/other/cpu.max", "100000 100000");
  EXPECT_EQ(root.quota(), 2) << "a neighbour's limit is none of ours";
}

TEST(CgroupQuota, Version2InAContainersNamespace) {
  Root root;
  root.file("/proc/self/cgroup", "0::/").file("/proc/self/mountinfo", kMount2);
  root.file("/sys/fs/cgroup/cpu.max", "150000 100000");
  EXPECT_EQ(root.quota(), 1.5);
  root.file("/proc/self/cgroup", "0::/../sibling");
  EXPECT_EQ(root.quota(), 1.5) << "a path above the namespace's root counts as the root";
}

TEST(CgroupQuota, Version1) {
  Root root;
  root.file("/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/docker/x\n3:cpuset:/s\n1:name=systemd:/u");
  root.file("/proc/self/mountinfo", kMount1);
  const std::string group = "/sys/fs/cgroup/cpu,cpuacct/docker/x";
  root.file(group + "/cpu.cfs_quota_us", "-1").file(group + "/cpu.cfs_period_us", "100000");
  EXPECT_EQ(root.quota(), 0);
  root.file(group + "/cpu.cfs_quota_us", "250000");
  EXPECT_EQ(root.quota(), 2.5);
  root.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000");
  root.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(root.quota(), 1);
}

TEST(CgroupQuota, Version1WhereAContainerSeesItsOwnGroupOnly) {
  Root root;
  root.file("/proc/self/cgroup", "4:cpu,cpuacct:/docker/x/inner");
  root.file("/proc/self/mountinfo",
            "32 23 0:28 /docker/x /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct");
  root.file("/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "50000");
  root.file("/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000");
  EXPECT_EQ(root.quota(), 0.5);
}

TEST(UsableCores, FollowAffinity) {
  const int all = usable_cores();
  ASSERT_GE(all, 1);
  EXPECT_LE(all, process_affinity().count());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    _exit(sched_setaffinity(0, sizeof(one), &one) == 0 && usable_cores() == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(KeptOff, LeavesTheAffinityAsItWas) {
  cpu_set_t before, during, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "one CPU";
  const int thread = gettid(), cpu = current_cpu();
  ASSERT_TRUE(CPU_ISSET(cpu, &before));
  {
    const KeptOff kept(thread, cpu);
    ASSERT_EQ(sched_getaffinity(0, sizeof(during), &during), 0);
    EXPECT_NE(current_cpu(), cpu);
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_FALSE(CPU_ISSET(cpu, &during));
  EXPECT_EQ(CPU_COUNT(&during), CPU_COUNT(&before) - 1);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(KeptOff, DoesNothingWithoutAnotherCpuOrThread) {
  cpu_set_t before, one, during, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  CPU_SET(current_cpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  {
    const KeptOff kept(gettid(), current_cpu()), unknown(0, current_cpu()), nowhere(gettid(), -1);
    ASSERT_EQ(sched_getaffinity(0, sizeof(during), &during), 0);
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_TRUE(CPU_EQUAL(&one, &during));
  EXPECT_TRUE(CPU_EQUAL(&one, &after));
}

}  // namespace
}  // namespace tconv::cpu
