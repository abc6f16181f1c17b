#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/topology.h"
#include "models/bind_all.h"
#include "models/device_run.h"
#include "models/flux2_step.h"

namespace lamina::test {

/// Where ranks run.
struct RankBackend {
  std::function<std::unique_ptr<Device>(std::size_t rank)> create_device;
  std::function<std::vector<std::unique_ptr<Communicator>>(const std::string& name,
                                                           const std::vector<std::size_t>& ranks)>
      connect;
  DType activations = DType::f32;
};

/// Skips collectives until it is opened, so that everything else has run once before the first of them: a GPU loads
/// kernels when they are launched first, which must not happen while a collective of the process is pending.
class GatedCommunicator final : public Communicator {
 public:
  explicit GatedCommunicator(std::unique_ptr<Communicator> inner)
      : Communicator(inner->name(), inner->rank(), inner->size()), inner_(std::move(inner)) {}

  void open() { is_open_ = true; }
  void abort(const Error& reason) noexcept override { inner_->abort(reason); }
  void check() const override { inner_->check(); }

 private:
  void do_enqueue(const Collective& collective, const Access&, Stream& stream) override {
    if (!is_open_) return;
    const std::size_t size = collective.piece_bytes;
    switch (collective.kind) {
      case Collective::Kind::all_gather: return inner_->all_gather_async(collective.target, size, stream);
      case Collective::Kind::all_to_all:
        return inner_->all_to_all_async(collective.source, collective.target, size, stream);
      case Collective::Kind::all_reduce:
        return inner_->all_reduce_async(
            {collective.target, collective.dtype, {static_cast<std::int64_t>(size / size_of(collective.dtype))}},
            stream);
      default: fail(ErrorCode::internal, "no pass has a {}", to_string(collective.kind));
    }
  }

  std::unique_ptr<Communicator> inner_;
  bool is_open_ = false;
};

using MakeModel = std::function<Model(const TensorParallel& part)>;

/// A step on one rank's device, in exactly the memory that a planning run finds.
class StepOnRank {
 public:
  StepOnRank(std::unique_ptr<Device> device, const MakeModel& make_model, const Step& step, const ModelGroups& groups,
             DType activations)
      : run_(std::move(device)),
        model_(make_model(part_of(groups.tensor))),
        lay_out_([=, this, &step](Arena& arena) {
          return std::make_unique<StepOnDevice>(model_.transformer, step, arena, groups, activations);
        }),
        memory_(run_, model_.transformer.parameters(), lay_out_,
                [](const StepOnDevice& planned, ops::OpContext& context) { planned.run(context); }),
        weights_(run_.device(), run_.stream(), model_.checkpoint, model_.transformer.plan(),
                 model_.transformer.parameters()),
        arena_(memory_.arena()),
        branches_(step.texts.size()),
        on_device_(lay_out_(arena_)) {}

  /// Inputs are there, and all else is NaN.
  void upload() {
    run_.poison(memory_.activations());
    on_device_->upload(run_);
  }

  void run() {
    ops::OpContext context = memory_.context(run_);
    on_device_->run(context);
    run_.stream().synchronize();
  }

  std::vector<std::vector<float>> velocities() {
    std::vector<std::vector<float>> result;
    for (std::size_t i = 0; i < branches_; ++i) result.push_back(run_.download(on_device_->branch(i).velocity()));
    return result;
  }

  std::size_t activation_bytes() const { return memory_.activations().size_bytes(); }
  std::size_t workspace_bytes() const { return memory_.workspace().size_bytes(); }

 private:
  static TensorParallel part_of(const Communicator* group) {
    if (group == nullptr) return {};
    return {static_cast<std::int64_t>(group->size()), static_cast<std::int64_t>(group->rank())};
  }

  DeviceRun run_;
  Model model_;
  std::function<std::unique_ptr<StepOnDevice>(Arena&)> lay_out_;
  ExactMemory memory_;
  BoundWeights weights_;
  Arena arena_;
  std::size_t branches_;
  std::unique_ptr<StepOnDevice> on_device_;
};

using Communicators = std::vector<std::unique_ptr<GatedCommunicator>>;

/// The communicators of every rank, by rank; none where a group is a rank alone.
inline Communicators connect_all(const RankBackend& backend, const Topology& topology, GroupKind kind) {
  Communicators by_rank(topology.world_size());
  for (const RankGroup& group : topology.groups(kind)) {
    if (group.size() == 1) continue;
    auto communicators = backend.connect(std::string(to_string(kind)), group.ranks);
    for (std::size_t i = 0; i < group.size(); ++i)
      by_rank[group.ranks[i]] = std::make_unique<GatedCommunicator>(std::move(communicators[i]));
  }
  return by_rank;
}

/// Runs `run(rank)` on a thread for each rank; one that fails takes the others along. Throws the first error.
template <typename Run>
void run_together(const std::vector<const Communicators*>& groups, std::size_t ranks, const Run& run) {
  std::vector<std::optional<Error>> errors(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        run(rank);
      } catch (const Error& error) {
        errors[rank] = error;
        for (const Communicators* group : groups)
          if ((*group)[rank]) (*group)[rank]->abort(error);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) throw *error;
}

/// Velocities of a step that ranks compute together. Checks that all of them find the same velocities and need the same
/// memory.
inline std::vector<std::vector<float>> velocities_of_ranks(const RankBackend& backend, const ParallelSizes& sizes,
                                                           const MakeModel& make_model, const Step& step) {
  const Topology topology(sizes);
  const auto tensor = connect_all(backend, topology, GroupKind::tensor);
  const auto sequence = connect_all(backend, topology, GroupKind::sequence);
  // Whatever allocates comes before the first collective, too.
  std::vector<std::unique_ptr<StepOnRank>> ranks;
  for (std::size_t rank = 0; rank < topology.world_size(); ++rank) {
    const ModelGroups groups{tensor[rank].get(), sequence[rank].get()};
    ranks.push_back(
        std::make_unique<StepOnRank>(backend.create_device(rank), make_model, step, groups, backend.activations));
    ranks.back()->upload();
    ranks.back()->run();
    ranks.back()->upload();
  }
  for (const Communicators* group : {&tensor, &sequence})
    for (const auto& communicator : *group)
      if (communicator) communicator->open();
  run_together({&tensor, &sequence}, ranks.size(), [&](std::size_t rank) { ranks[rank]->run(); });
  const auto velocities = ranks.front()->velocities();
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->velocities(), velocities);
    EXPECT_EQ(rank->activation_bytes(), ranks.front()->activation_bytes());
    EXPECT_EQ(rank->workspace_bytes(), ranks.front()->workspace_bytes());
  }
  return velocities;
}

}  // namespace lamina::test
