#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "base/bytes.h"
#include "base/json.h"
#include "base/page_cache.h"
#include "base/system_file.h"
#include "engine/engine_fixture.h"
#include "pipelines/synthesis.h"

namespace lamina::test {
namespace {

namespace fs = std::filesystem;

/// Heap, stacks and tables of a process beside its weights: plans, bindings, buffers of the C library.
constexpr double kHeapBytes = 8.0 * kMiB;

/// What the kernel counts for a process, and the PSS of its mappings of the checkpoint's files.
struct Memory {
  double pss = 0;
  double private_dirty = 0;
  double checkpoint_pss = 0;
};

double kib_field(const std::string& text, std::string_view field, const fs::path& file) {
  const auto value = find_system_field(text, field);
  if (!value) throw std::runtime_error(fmt::format("{}: no field {}", file.string(), field));
  return static_cast<double>(parse_system_kib(*value, file, field));
}

/// Of the mappings whose path contains `part`.
double mapped_pss(const fs::path& smaps, const std::string& part) {
  std::ifstream lines(smaps);
  double total = 0;
  bool counts = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.find('-') < line.find(' ')) counts = line.find(part) != std::string::npos;
    if (counts && line.starts_with("Pss:")) total += kib_field(line, "Pss", smaps);
  }
  return total;
}

/// A child that holds weights as it is told; see weight_holder.cpp.
class Holder {
 public:
  explicit Holder(const fs::path& model) {
    std::array<int, 2> commands{};
    std::array<int, 2> answers{};
    if (::pipe2(commands.data(), O_CLOEXEC) != 0 || ::pipe2(answers.data(), O_CLOEXEC) != 0)
      throw std::runtime_error("no pipe");
    std::string program = LAMINA_WEIGHT_HOLDER;
    std::string argument = model.string();
    const std::array<char*, 3> argv{program.data(), argument.data(), nullptr};
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(commands[0], STDIN_FILENO);
      ::dup2(answers[1], STDOUT_FILENO);
      ::execv(program.c_str(), argv.data());
      ::_exit(127);
    }
    ::close(commands[0]);
    ::close(answers[1]);
    commands_ = ::fdopen(commands[1], "w");
    answers_ = ::fdopen(answers[0], "r");
  }
  ~Holder() {
    std::fclose(commands_);
    int status = 0;
    ::waitpid(child_, &status, 0);
    std::fclose(answers_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  /// Bytes on the device and pinned, once `what` is held.
  Json hold(const char* what) {
    std::fprintf(commands_, "%s\n", what);
    std::fflush(commands_);
    std::array<char, 256> line{};
    if (std::fgets(line.data(), line.size(), answers_) == nullptr) throw std::runtime_error("the child ended");
    return parse_json(line.data(), "the child's answer");
  }

  Memory memory() const {
    const fs::path folder = fmt::format("/proc/{}", child_);
    const std::string rollup = read_system_file(folder / "smaps_rollup").value();
    return {kib_field(rollup, "Pss", folder), kib_field(rollup, "Private_Dirty", folder),
            mapped_pss(folder / "smaps", "diffusion_pytorch_model")};
  }

 private:
  pid_t child_ = -1;
  std::FILE* commands_ = nullptr;
  std::FILE* answers_ = nullptr;
};

double bytes_of(const Json& sizes, const char* field) {
  return sizes.at(field).get<double>();
}

std::string in_mib(double bytes) {
  return fmt::format("{:.1f}", bytes / static_cast<double>(kMiB));
}

/// A transformer of 1 GiB, of few wide blocks, as one file.
class HostSharing : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<ScratchFolder>();
    Json config = read_json_file(tiny_shapes() / "transformer/config.json");
    config.update({{"attention_head_dim", 128},
                   {"axes_dims_rope", {32, 32, 32, 32}},
                   {"num_attention_heads", 8},
                   {"num_layers", 3},
                   {"num_single_layers", 32},
                   {"joint_attention_dim", 1024}});
    std::ofstream(folder_->path() / "config.json") << config.dump();
    const SynthesisRequest request{.family = "flux2",
                                   .size = (folder_->path() / "config.json").string(),
                                   .components = {"transformer"},
                                   .seed = 3};
    const SynthesisPlan plan = plan_synthesis(request);
    write_synthetic_model(plan, request, model());
    weights_ = static_cast<double>(plan.weight_bytes());
    ASSERT_GE(weights_, 1.0 * kGiB);
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    if (!read_system_file("/proc/self/smaps_rollup")) GTEST_SKIP() << "no smaps_rollup on this machine";
  }

  static fs::path model() { return folder_->path() / "model"; }
  static fs::path checkpoint() { return model() / "transformer/diffusion_pytorch_model.safetensors"; }

  static inline std::unique_ptr<ScratchFolder> folder_;
  static inline double weights_ = 0;
};

/// One row of the table for each process, and their sums.
struct Shares {
  double weights_pss = 0;     ///< PSS beyond that of the idle process and of the device's memory
  double checkpoint_pss = 0;  ///< the part of it in mappings of the files
  double private_dirty = 0;   ///< beyond the idle process's
  double device_and_pinned = 0;
  double pinned = 0;
};

Shares hold_by_both(const fs::path& model, const char* what) {
  std::array<Holder, 2> holders{Holder(model), Holder(model)};
  std::array<Memory, 2> idle;
  std::array<Json, 2> sizes;
  for (Holder& holder : holders) holder.hold("nothing");
  for (std::size_t i = 0; i < 2; ++i) idle[i] = holders[i].memory();
  for (std::size_t i = 0; i < 2; ++i) sizes[i] = holders[i].hold(what);
  fmt::print("{:<8} {:>13} {:>8} {:>8} {:>15} {:>15} {:>8}\n", what, "private dirty", "PSS", "device", "PSS of weights",
             "of that, mapped", "pinned");
  Shares sum;
  for (std::size_t i = 0; i < 2; ++i) {
    const Memory now = holders[i].memory();
    const double device = bytes_of(sizes[i], "device_bytes");
    const double weights = now.pss - idle[i].pss - device;
    fmt::print("{:<8} {:>13} {:>8} {:>8} {:>15} {:>15} {:>8}\n", i, in_mib(now.private_dirty - idle[i].private_dirty),
               in_mib(now.pss), in_mib(device), in_mib(weights), in_mib(now.checkpoint_pss),
               in_mib(bytes_of(sizes[i], "pinned_bytes")));
    sum.weights_pss += weights;
    sum.checkpoint_pss += now.checkpoint_pss;
    sum.private_dirty += now.private_dirty - idle[i].private_dirty;
    sum.pinned += bytes_of(sizes[i], "pinned_bytes");
    sum.device_and_pinned += device + bytes_of(sizes[i], "pinned_bytes");
  }
  return sum;
}

TEST_F(HostSharing, TwoProcessesShareOneCopyOfMappedWeights) {
  const Shares sum = hold_by_both(model(), "mapped");
  // Packing reads by pread, so the copy that both share is pages of the file that neither process need have mapped.
  const double cached = testing::resident_share(checkpoint()) * static_cast<double>(fs::file_size(checkpoint()));
  fmt::print("weights {} MiB; in the page cache {}; together with both processes {}\n", in_mib(weights_),
             in_mib(cached), in_mib(cached + sum.weights_pss));
  EXPECT_LE(sum.weights_pss, 1.05 * weights_ + sum.pinned);
  EXPECT_LE(cached + sum.weights_pss - sum.checkpoint_pss, 1.05 * weights_ + sum.pinned);
  EXPECT_LE(sum.private_dirty, sum.device_and_pinned + 2 * kHeapBytes);
}

/// What the bounds above would see if each process kept its own.
TEST_F(HostSharing, TwoProcessesHoldTwoCopiesOfPrivateWeights) {
  const Shares sum = hold_by_both(model(), "private");
  EXPECT_GE(sum.weights_pss, 2 * weights_);
  EXPECT_GE(sum.private_dirty, 2 * weights_);
}

TEST_F(HostSharing, ASwitchFromPrivateToMappedWeightsGivesTheMemoryBack) {
  Holder holder(model());
  holder.hold("nothing");
  const double idle = holder.memory().private_dirty;
  const auto held = [&](const char* what, const Json& sizes) {
    const double dirty = holder.memory().private_dirty - idle;
    fmt::print("{:<8} private dirty {} MiB; device {}, pinned {}\n", what, in_mib(dirty),
               in_mib(bytes_of(sizes, "device_bytes")), in_mib(bytes_of(sizes, "pinned_bytes")));
    return dirty;
  };
  EXPECT_GE(held("private", holder.hold("private")), weights_);
  const Json mapped = holder.hold("mapped");
  EXPECT_LE(held("mapped", mapped), bytes_of(mapped, "device_bytes") + bytes_of(mapped, "pinned_bytes") + kHeapBytes);
  EXPECT_LE(held("nothing", holder.hold("nothing")), kHeapBytes);
}

}  // namespace
}  // namespace lamina::test
