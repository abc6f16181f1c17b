#include "engine/lockstep/proposal_bytes.h"

#include <type_traits>

#include "base/error.h"

namespace lamina {
namespace {

/// Writes values one behind the other.
class Writer {
 public:
  void operator()(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<std::byte>(value >> shift));
  }
  void operator()(bool value) { (*this)(std::uint64_t{value}); }
  void operator()(std::chrono::nanoseconds value) { (*this)(static_cast<std::uint64_t>(value.count())); }
  void operator()(const std::string& text) {
    (*this)(std::uint64_t{text.size()});
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }
  template <typename Enum>
    requires(std::is_enum_v<Enum>)
  void enumerator(Enum value, Enum) { (*this)(static_cast<std::uint64_t>(value)); }
  template <typename T>
  void operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(std::uint64_t{*value});
  }
  template <typename T, typename Each>
  void list(const std::vector<T>& values, Each each) {
    (*this)(std::uint64_t{values.size()});
    for (const T& value : values) each(*this, value);
  }

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what a writer wrote.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  void operator()(std::uint64_t& value) {
    value = 0;
    const std::span<const std::byte> taken = take(8);
    for (std::size_t i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(taken[i]) << (8 * i);
  }
  void operator()(bool& value) { value = number_up_to(1) == 1; }
  void operator()(std::chrono::nanoseconds& value) {
    std::uint64_t count = 0;
    (*this)(count);
    value = std::chrono::nanoseconds(static_cast<std::int64_t>(count));
  }
  void operator()(std::string& text) {
    std::uint64_t size = 0;
    (*this)(size);
    const std::span<const std::byte> taken = take(size);
    text.resize(taken.size());
    for (std::size_t i = 0; i < taken.size(); ++i) text[i] = std::to_integer<char>(taken[i]);
  }
  template <typename Enum>
    requires(std::is_enum_v<Enum>)
  void enumerator(Enum& value, Enum last) { value = static_cast<Enum>(number_up_to(static_cast<std::uint64_t>(last))); }
  template <typename T>
  void operator()(std::optional<T>& value) {
    bool present = false;
    (*this)(present);
    if (present) (*this)(value.emplace());
  }
  template <typename T, typename Each>
  void list(std::vector<T>& values, Each each) {
    std::uint64_t size = 0;
    (*this)(size);
    // Every element takes a byte at least, so a false size ends before it fills the memory.
    for (; size > 0; --size) each(*this, values.emplace_back());
  }

  void expect_end() const {
    if (!bytes_.empty()) fail(ErrorCode::corrupt, "a proposal of another rank: {} bytes too many", bytes_.size());
  }

 private:
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > bytes_.size())
      fail(ErrorCode::corrupt, "a proposal of another rank ends early: expected {} bytes more, found {}", size,
           bytes_.size());
    const std::span<const std::byte> taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  std::uint64_t number_up_to(std::uint64_t most) {
    std::uint64_t value = 0;
    (*this)(value);
    if (value > most)
      fail(ErrorCode::corrupt, "a proposal of another rank: found {}, expected at most {}", value, most);
    return value;
  }

  std::span<const std::byte> bytes_;
};

// One description serves both directions: `stream` is a Writer with constant values, or a Reader.

constexpr auto kLeg = [](auto& stream, auto& leg) {
  stream(leg.stack);
  stream(leg.passes);
  stream(leg.pass_time);
};

constexpr auto kRequest = [](auto& stream, auto& request) {
  stream(request.id);
  stream.list(request.legs, kLeg);
  stream(request.explicit_steps);
  stream(request.payload);
};

constexpr auto kFailure = [](auto& stream, auto& failure) {
  stream.enumerator(failure.code, ErrorCode::internal);
  stream(failure.message);
};

constexpr auto kVote = [](auto& stream, auto& vote) {
  stream(vote.id);
  stream.enumerator(vote.answer, ReserveVote::Answer::never);
  kFailure(stream, vote.failure);
};

constexpr auto kSampleFailure = [](auto& stream, auto& report) {
  stream(report.id);
  kFailure(stream, report.failure);
};

constexpr auto kProposal = [](auto& stream, auto& proposal) {
  stream.list(proposal.arrivals, kRequest);
  stream.list(proposal.cancellations, [](auto& inner, auto& id) { inner(id); });
  stream(proposal.stop);
  stream.list(proposal.votes, kVote);
  stream.list(proposal.failures, kSampleFailure);
};

}  // namespace

std::vector<std::byte> to_bytes(const Proposal& proposal) {
  Writer writer;
  kProposal(writer, proposal);
  return writer.take();
}

Proposal proposal_from_bytes(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Proposal proposal;
  kProposal(reader, proposal);
  reader.expect_end();
  return proposal;
}

}  // namespace lamina
