#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "device/stream.h"
#include "lamina/generate.h"
#include "lamina/lora.h"
#include "lamina/vae_tiling.h"
#include "models/model_groups.h"
#include "models/pass_member.h"
#include "offload/offload_plan.h"
#include "offload/staging.h"
#include "tensor/arena.h"
#include "tensor/parameter.h"
#include "weights/checkpoint.h"
#include "weights/load_hook.h"
#include "weights/weight_binding.h"

namespace lamina {

/// A part of a model that is set up on the device by itself: a transformer, a text encoder, one half of a VAE. Owned by
/// its pipeline.
struct ModelPart {
  const OffloadPlan& plan;
  std::vector<Parameter*> parameters;
  const Checkpoint& checkpoint;
  /// `--dlo-host-backing` speaks of this part.
  bool is_transformer = false;
  /// Ranks of which each has its part of the plan's tensors, this one's being declared.
  std::size_t tensor_parallel_size = 1;
  /// How the checkpoint stores the plan's tensors; may be empty.
  StoredFormOf stored_as;
  /// Run once, before any of the weights moves.
  std::vector<LoadHook> load_hooks;
};

/// One stage of one request: some traversals of one part, or work that needs the part's outside weights alone. The
/// engine drives it:
///
///     lay_out(measuring arena); run everything on a planning context      -> bytes needed
///     lay_out(real arena); upload; passes over the members; run_outside; download
///
/// and owns residency, the block loop and all device memory.
class Stage {
 public:
  virtual ~Stage() = default;

  virtual const std::string& name() const = 0;
  /// Index into `Pipeline::parts`.
  virtual std::size_t part() const = 0;

  /// Keeps what is between layers in host memory, from the next `lay_out` on: less device memory, more time, the same
  /// results. False where it does so already, cannot, or must not.
  virtual bool divide() { return false; }
  virtual bool is_divided() const { return false; }

  /// Takes all device tensors of the stage from `arena` and starts afresh; `arena` outlives the run that follows.
  virtual void lay_out(Arena& arena) = 0;
  /// Enqueues the copies of the stage's inputs.
  virtual void upload(StagingUploader& uploader) = 0;

  /// Stack traversed `passes` times by `members`.
  virtual std::size_t stack() const { return 0; }
  virtual std::size_t passes() const { return 0; }
  virtual std::vector<PassMember*> members() { return {}; }

  /// Work behind the passes.
  virtual void run_outside(ops::OpContext& context) { static_cast<void>(context); }
  /// Pinned host memory that the results take until the generation ends, and the stage while it runs; known once laid
  /// out and run on a planning context.
  virtual std::size_t result_bytes() const = 0;
  /// Enqueues the copies of the stage's results to the host; they are read after the stream is synchronized.
  virtual void download(Stream& stream) = 0;
  /// Takes the results in, once the copies are done.
  virtual void collect() = 0;
};

/// What a request becomes: its stages in order, later ones reading what earlier ones collected. Everything that can be
/// refused without a device was refused before it exists.
class Generation {
 public:
  virtual ~Generation() = default;
  virtual std::vector<Stage*> stages() = 0;
  /// What of the request has no effect or was cut, and why; known from the start.
  virtual const std::vector<std::string>& notes() const = 0;
  /// Picture, settings and tensors, after the last stage.
  virtual GenerateResult result() = 0;
};

/// What of a model is opened, and how it computes.
struct PipelineOptions {
  std::string variant;             ///< of the weights' files; empty: the plain ones
  std::string transformer_file;    ///< in place of the transformer's weights in the folder; empty: those
  std::vector<Lora> loras;         ///< merged into the transformer, one after the other
  bool text_encoder = true;        ///< false: requests give prompt embeddings
  DType activations = DType::f32;  ///< f32, or bf16 on devices that have it
  VaeTiling vae_tiling = VaeTiling::automatic;
  ModelGroups groups;                        ///< whom this rank computes with
  bool text_encoder_tensor_parallel = true;  ///< false: it is whole on every rank
};

/// A model family's way from request to picture, for one checkpoint. Holds configurations and module trees, no bytes of
/// weights on any device.
class Pipeline {
 public:
  virtual ~Pipeline() = default;
  virtual const std::vector<ModelPart>& parts() const = 0;
  /// Dtype of the activations on the device.
  virtual DType activations() const = 0;
  /// Throws invalid_argument naming the field of the request, found and allowed values; not_found, corrupt for files.
  virtual std::unique_ptr<Generation> start(const GenerateRequest& request) = 0;
};

}  // namespace lamina
