#include "cli/generate_on_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/milliseconds.h"
#include "cli/file_flags.h"
#include "cli/interruption.h"
#include "cli/progress_bar.h"
#include "cli/prompt_file.h"
#include "engine/lockstep/first_fault.h"
#include "engine/ranks/gathered_run.h"
#include "engine/ranks/ranked_setup.h"
#include "engine/result_files.h"

namespace lamina {
namespace {

/// One for each line that is not blank, each with the seed behind the last one's. A byte order mark is none of the
/// first prompt's.
std::vector<GenerateRequest> read_requests(const GenerateFlags& flags) {
  if (flags.prompts.empty()) return {flags.request};
  std::vector<GenerateRequest> requests;
  for (const std::string& prompt : read_prompt_file(flags.prompts)) {
    requests.push_back(flags.request);
    requests.back().prompt = prompt;
    requests.back().seed = flags.request.seed + requests.size() - 1;
  }
  return requests;
}

/// "fox.png", or "fox-1.png", "fox-2.png", ... for several prompts.
std::vector<std::string> picture_names(const GenerateFlags& flags, std::size_t count) {
  if (flags.prompts.empty()) return {flags.output};
  const std::filesystem::path output(flags.output);
  if (output.extension() != ".png")
    fail(ErrorCode::invalid_argument, "--output {}: the pictures of --prompts are numbered; name a .png file",
         flags.output);
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= count; ++i)
    names.push_back(
        (output.parent_path() / fmt::format("{}-{}{}", output.stem().string(), i, output.extension().string()))
            .string());
  return names;
}

/// The files of a run, opened before any work so that a path that cannot be written is refused at once.
struct RankedFiles {
  RankedFiles(const GenerateFlags& flags, const std::vector<std::string>& names, bool reports) {
    for (const std::string& name : names) {
      refuse_shared_file("--report", flags.report, "--output", name);
      refuse_shared_file("--save-tensors", flags.save_tensors, "--output", name);
      pictures.emplace_back(name);
    }
    refuse_shared_file("--report", flags.report, "--save-tensors", flags.save_tensors);
    if (!flags.save_tensors.empty()) tensors.emplace(flags.save_tensors);
    if (!flags.report.empty() && reports) report.emplace(flags.report);
  }

  std::vector<AtomicFile> pictures;
  std::optional<AtomicFile> tensors;  ///< of the only one
  std::optional<AtomicFile> report;
};

/// Pictures that this process made. One that cannot be written keeps none of the others from it: it becomes a failure.
void write_results(RankedRun& run, RankedFiles& files) {
  for (std::size_t i = 0; i < run.outcomes.size(); ++i) {
    RankedOutcome& outcome = run.outcomes[i];
    if (!outcome.result) continue;
    try {
      write_png(std::move(files.pictures[i]), *outcome.result);
      if (files.tensors) write_tensors(std::move(*files.tensors), *outcome.result);
    } catch (const Error& error) {
      outcome.result.reset();
      outcome.failure = Failure{error.code(), error.message()};
    }
  }
}

/// What all processes made.
void print_results(const RankedRun& run, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!run.outcomes[i].failure) fmt::print("{}\n  {:<22}{}\n", names[i], "rank", run.outcomes[i].rank);
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const RankTotals& totals = run.ranks[rank].totals;
    fmt::print("  {:<22}{} passes, {} copied, {} gathered, stall {:.1f} ms, weights on the host {}\n",
               fmt::format("rank {}", rank), totals.passes, format_size(totals.copied_bytes),
               format_size(totals.gathered_bytes), milliseconds(totals.stall), format_size(totals.host_bytes));
  }
  if (run.shared_host_bytes > 0)
    fmt::print("  {:<22}weights on the host {}\n", "shared by the ranks", format_size(run.shared_host_bytes));
  for (const CouplingReport& coupling : run.coupling)
    if (coupling.passes > 0)
      fmt::print("  {:<22}{:.1f} % of {} passes, by predicted times\n", "coupling loss", 100 * coupling.loss(),
                 coupling.passes);
}

void throw_first_fault(const RankedRun& run) {
  for (const RankReport& rank : run.ranks)
    if (rank.fault) throw as_reason(*rank.fault);
}

/// Throws why pictures are missing, naming each; the first reason's code is that of all.
void fail_for_missing(const RankedRun& run, const std::vector<std::string>& names) {
  std::optional<ErrorCode> code;
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const std::optional<Failure>& failure = run.outcomes[i].failure) {
      code = code.value_or(failure->code);
      reasons.push_back(fmt::format("{}: {}", names[i], failure->message));
    }
  if (code) throw Error(*code, fmt::format("{}", fmt::join(reasons, "; ")));
}

/// Interrupted, the first process cancels what is open; another one can only end, and all with it.
RankedRun run_with_progress(const RankedSetup& setup, const std::vector<GenerateRequest>& requests, bool is_first) {
  std::optional<ProgressBar> bar;
  if (is_first) bar.emplace();
  return run_on_ranks(setup, requests,
                      {.passed =
                           [&](const RankedProgress& progress) {
                             if (bar) bar->show_passes(progress.passes, progress.total);
                             if (!is_first) stop_if_interrupted();
                           },
                       .is_cancelled = [](std::size_t) { return interruption() != 0; }});
}

}  // namespace

void generate_on_ranks(const GenerateFlags& flags, const EngineConfig& config) {
  if (!flags.trace.empty())
    fail(ErrorCode::invalid_argument, "--trace: only a run of one rank and one prompt is traced; drop it");
  const std::vector<GenerateRequest> requests = read_requests(flags);
  const std::vector<std::string> names = picture_names(flags, requests.size());
  std::vector<std::string> notes;
  if (requests.size() > 1)
    notes.push_back(fmt::format("the prompts take the seeds {} to {}, in their order", requests.front().seed,
                                requests.back().seed));
  RankedSetup setup = ranked_setup(config, notes);
  setup.also_alike.emplace_back("--output", flags.output);
  const bool is_first = setup.connector->local_ranks().first == 0;  // of the processes: it speaks for all
  for (const std::string& note : notes)
    if (is_first) spdlog::info(note);
  const InputFiles inputs = inputs_of(flags);
  for (const std::string& name : names) inputs.refuse_output("--output", name);
  RankedFiles files(flags, names, is_first);
  RankedRun run;
  RankedRun all;
  try {
    run = run_with_progress(setup, requests, is_first);
    write_results(run, files);
    all = gather_run(*setup.connector, run);  // throws the fault, where processes share their fate
  } catch (const Error& error) {
    setup.connector->end(error);  // nobody is left waiting for this process
    throw;
  }
  setup.connector.reset();  // leaves the others in peace: what follows concerns nobody else
  if (!is_first) return;
  print_results(all, names);
  if (files.report) write_text(std::move(*files.report), report_json(all));
  stop_if_interrupted();
  throw_first_fault(run);
  fail_for_missing(all, names);
}

}  // namespace lamina
