#include "engine/residency/host_images.h"

#include <algorithm>
#include <utility>

namespace lamina {

HostImages::HostImages(std::size_t ranks, std::function<std::unique_ptr<Device>()> create_device)
    : ranks_(ranks), create_device_(std::move(create_device)) {}

/// One rank's turn; what it fails with, the others fail with.
template <typename Action>
auto HostImages::as_one(Action action) {
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
  try {
    return action();
  } catch (const Error& error) {
    failure_ = error;
    throw;
  } catch (const std::exception& error) {
    failure_.emplace(ErrorCode::internal, error.what());
    throw;
  }
}

HostBackingChoice HostImages::backing(const std::function<HostBackingChoice()>& choose) {
  return as_one([&] {
    if (!backing_) backing_ = choose();
    return *backing_;
  });
}

std::vector<HostImages::Images> HostImages::load(const std::vector<Part>& parts,
                                                 const std::function<void(const Missing&)>& prepare) {
  return as_one([&] {
    Missing missing{.ranks = std::exchange(ranks_are_accounted_, true) ? 0 : ranks_};
    for (const Part& part : parts)
      if (find(part.plan) == nullptr) missing.weight_bytes += PinnedImages::size_bytes(part.plan);
    prepare(missing);
    std::vector<Images> images;
    for (const Part& part : parts) images.push_back(find_or_pack(part));
    return images;
  });
}

std::size_t HostImages::size_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t size = 0;
  for (const Packed& packed : packed_) size += packed.images->size_bytes();
  return size;
}

const HostImages::Packed* HostImages::find(const OffloadPlan& plan) const {
  const auto found = std::ranges::find(packed_, plan, &Packed::plan);
  return found == packed_.end() ? nullptr : &*found;
}

HostImages::Images HostImages::find_or_pack(const Part& part) {
  if (const Packed* packed = find(part.plan)) return packed->images;
  if (device_ == nullptr) device_ = create_device_();
  packed_.push_back({part.plan, std::make_shared<const PinnedImages>(*device_, part.plan, part.bindings)});
  return packed_.back().images;
}

}  // namespace lamina
