#include "base/cgroup.h"

#include <gtest/gtest.h>

#include <string>

#include "base/expect_error.h"
#include "base/temporary_folder.h"

namespace lamina {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;

/// A root with the files of control groups that a test names.
class Cgroup : public ::testing::Test {
 protected:
  void member_of(const std::string& lines) { root_.write("proc/self/cgroup", lines); }

  void v2_group(const std::string& path, const std::string& limit, const std::string& usage,
                const std::string& stat = "anon 1\n") {
    const std::string folder = "sys/fs/cgroup" + path;
    root_.write(folder + "/memory.max", limit + "\n");
    root_.write(folder + "/memory.current", usage + "\n");
    root_.write(folder + "/memory.stat", stat);
  }

  void v1_group(const std::string& path, const std::string& limit, const std::string& usage,
                const std::string& stat = "cache 1\n") {
    const std::string folder = "sys/fs/cgroup/memory" + path;
    root_.write(folder + "/memory.limit_in_bytes", limit + "\n");
    root_.write(folder + "/memory.usage_in_bytes", usage + "\n");
    root_.write(folder + "/memory.stat", stat);
  }

  std::vector<CgroupMemory> limits() const { return read_cgroup_limits(root_.path()); }

  TemporaryFolder root_;
};

constexpr const char* kV1Unlimited = "9223372036854771712";
constexpr const char* kV1Lines = "9:cpu,cpuacct:/other\n4:memory:/jobs/mine\n1:name=systemd:/x:y\n0::/elsewhere\n";

TEST_F(Cgroup, WithoutControlGroupsThereAreNoLimits) {
  EXPECT_TRUE(limits().empty());
  member_of("");
  EXPECT_TRUE(limits().empty());
  member_of("0::/\n");
  EXPECT_TRUE(limits().empty()) << "v2's outermost group has no limit file";
}

TEST_F(Cgroup, V2LimitAndUsageWithoutFilePages) {
  member_of("0::/jobs/mine\n");
  v2_group("/jobs/mine", "1000000", "700000", "anon 400000\nactive_file 100000\ninactive_file 150000\nfile 250000\n");
  const std::vector<CgroupMemory> found = limits();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].limit_bytes, 1000000U);
  EXPECT_EQ(found[0].in_use_bytes, 450000U);
  EXPECT_EQ(found[0].limit_file, root_.path() / "sys/fs/cgroup/jobs/mine/memory.max");
}

TEST_F(Cgroup, V1LimitAndUsageWithoutFilePages) {
  member_of(kV1Lines);
  v1_group("/jobs/mine", "2000000", "900000",
           "active_file 7\ntotal_active_file 300000\ntotal_inactive_file 100000\ntotal_inactive_file_of_others 5\n");
  const std::vector<CgroupMemory> found = limits();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].limit_bytes, 2000000U);
  EXPECT_EQ(found[0].in_use_bytes, 500000U);
  EXPECT_EQ(found[0].limit_file, root_.path() / "sys/fs/cgroup/memory/jobs/mine/memory.limit_in_bytes");
}

TEST_F(Cgroup, MaxAndTheHugeNumberMeanNone) {
  member_of("0::/a\n");
  v2_group("/a", "max", "5");
  EXPECT_TRUE(limits().empty());
  member_of(kV1Lines);
  for (const char* unlimited : {kV1Unlimited, "9223372036854710272", "18446744073709551615"}) {
    v1_group("/jobs/mine", unlimited, "5");
    EXPECT_TRUE(limits().empty()) << unlimited;
  }
}

TEST_F(Cgroup, EveryLimitedGroupOnThePathCountsInnermostFirst) {
  member_of("0::/a/b/c\n");
  v2_group("/a/b/c", "3000", "1");
  v2_group("/a/b", "max", "2");
  v2_group("/a", "1000", "3");
  v2_group("/a/b/c/child", "10", "4");
  v2_group("/other", "20", "5");
  const std::vector<CgroupMemory> found = limits();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].limit_bytes, 3000U);
  EXPECT_EQ(found[1].limit_bytes, 1000U);
  EXPECT_EQ(found[1].in_use_bytes, 3U);
}

TEST_F(Cgroup, AContainerSeesItsGroupAtTheMount) {
  member_of("4:memory:/docker/0123\n");  // v1 without a namespace of control groups
  v1_group("", "4096", "8");
  ASSERT_EQ(limits().size(), 1U);
  EXPECT_EQ(limits()[0].limit_bytes, 4096U);
  member_of("0::/../../sibling\n");  // v2, started outside the namespace
  v2_group("", "2048", "8");
  ASSERT_EQ(limits().size(), 1U);
  EXPECT_EQ(limits()[0].limit_bytes, 2048U);
}

TEST_F(Cgroup, FilePagesNeverMakeUseNegative) {
  member_of("0::/a\n");
  v2_group("/a", "1000", "100", "active_file 90\ninactive_file 90\n");
  EXPECT_EQ(limits().at(0).in_use_bytes, 0U);
}

TEST_F(Cgroup, MalformedFilesAreNamed) {
  for (const char* line : {"memory", "4:memory", "0::relative", "\n"}) {
    member_of(line);
    expect_error(ErrorCode::corrupt, {"proc/self/cgroup", "'number:controllers:/path' is expected"}, [&] { limits(); });
  }
  member_of("0::/a\n");
  for (const char* limit : {"", "-1", "12x", "99999999999999999999999", "maximum"}) {
    v2_group("/a", limit, "5");
    expect_error(ErrorCode::corrupt, {"a/memory.max", limit}, [&] { limits(); });
  }
  v2_group("/a", "10", "much");
  expect_error(ErrorCode::corrupt, {"a/memory.current", "much"}, [&] { limits(); });
  v2_group("/a", "10", "5", "active_file many\n");
  expect_error(ErrorCode::corrupt, {"a/memory.stat", "active_file", "many"}, [&] { limits(); });
}

TEST(CgroupOfThisProcess, IsReadable) {
  for (const CgroupMemory& group : read_cgroup_limits()) EXPECT_GT(group.limit_bytes, 0U) << group.limit_file;
}

}  // namespace
}  // namespace lamina
