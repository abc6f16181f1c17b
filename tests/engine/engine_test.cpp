#include "lamina/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "base/expect_error.h"
#include "test_data.h"

namespace lamina::test {
namespace {

using std::chrono::seconds;
using testing::expect_error;

EngineConfig config() {
  EngineConfig config;
  config.model = test_data::models() / "tiny-shapes";
  config.device = "cpu";
  config.load_text_encoder = false;
  config.enable_distributed_layerwise_offload = true;
  return config;
}

GenerateRequest request(std::uint64_t seed, std::int64_t steps = 1) {
  GenerateRequest request;
  request.prompt_embeds_seed = 1;
  request.seed = seed;
  request.height = 16;
  request.width = 32;
  request.num_inference_steps = steps;
  return request;
}

std::vector<std::uint8_t> pixels(Engine& engine, std::uint64_t seed) {
  return engine.generate(request(seed)).picture.rgb;
}

TEST(Engine, ServesRequestsOfSeveralThreadsAsIfEachWereAlone) {
  Engine engine(config());
  const std::vector<std::vector<std::uint8_t>> alone{pixels(engine, 0), pixels(engine, 1), pixels(engine, 2)};
  EXPECT_NE(alone[0], alone[1]);
  std::vector<std::future<std::vector<std::uint8_t>>> all;
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    all.push_back(std::async(std::launch::async, [&engine, seed] { return pixels(engine, seed); }));
  for (std::size_t seed = 0; seed < 3; ++seed) EXPECT_EQ(all[seed].get(), alone[seed]);
  EXPECT_TRUE(engine.snapshot().requests.empty());
  EXPECT_TRUE(engine.drain(seconds(60)));
  EXPECT_EQ(engine.snapshot().finished, 6U);
}

TEST(Engine, SeveralPicturesOfARequestAreThoseOfTheNextSeeds) {
  Engine engine(config());
  GenerateRequest several = request(5);
  several.num_images_per_prompt = 2;
  std::vector<std::size_t> seen;
  Ticket ticket =
      engine.submit(several, {.finished = [&](std::size_t i, const GenerateResult&) { seen.push_back(i); }});
  const std::vector<GenerateResult> results = ticket.results();
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(results[0].picture.rgb, pixels(engine, 5));
  EXPECT_EQ(results[1].picture.rgb, pixels(engine, 6));
  EXPECT_EQ(ticket.status().state, RequestState::finished);
  expect_error(ErrorCode::invalid_argument, {"taken before"}, [&] { ticket.results(); });
}

TEST(Engine, ABadRequestFailsAloneAndWithItsReason) {
  Engine engine(config());
  GenerateRequest bad = request(0);
  bad.height = 17;
  Ticket failed = engine.submit(bad);
  Ticket good = engine.submit(request(0));
  expect_error(ErrorCode::invalid_argument, {"height", "17"}, [&] { failed.result(); });
  EXPECT_EQ(failed.status().state, RequestState::failed);
  EXPECT_EQ(good.result().picture.rgb, pixels(engine, 0));
  EXPECT_TRUE(engine.health());
}

TEST(Engine, CancelledRequestsEndAndOthersGoOn) {
  Engine engine(config());
  std::promise<void> started;
  bool told = false;
  Ticket running = engine.submit(request(0, 1000), {.progress = [&](const Progress&) {
                                   if (!std::exchange(told, true)) started.set_value();
                                 }});
  Ticket waiting = engine.submit(request(1));
  Ticket last = engine.submit(request(2));
  ASSERT_EQ(started.get_future().wait_for(seconds(60)), std::future_status::ready);
  EXPECT_EQ(running.status().state, RequestState::running);
  EXPECT_EQ(waiting.status().position, 0U);
  EXPECT_EQ(last.status().position, 1U);
  waiting.cancel();
  running.cancel();
  expect_error(ErrorCode::cancelled, {"cancelled"}, [&] { running.result(); });
  expect_error(ErrorCode::cancelled, {"cancelled"}, [&] { waiting.result(); });
  EXPECT_EQ(last.result().picture.rgb, pixels(engine, 2));
  EXPECT_EQ(engine.snapshot().cancelled, 2U);
}

TEST(Engine, ADestroyedTicketWithdrawsItsRequest) {
  Engine engine(config());
  { const Ticket dropped = engine.submit(request(0, 1000)); }
  EXPECT_EQ(engine.generate(request(1)).picture.width, 32);
  EXPECT_EQ(engine.snapshot().cancelled, 1U);
}

TEST(Engine, AnObserversExceptionEndsItsRequestAlone) {
  Engine engine(config());
  Ticket ticket =
      engine.submit(request(0, 2), {.progress = [](const Progress&) { throw Error(ErrorCode::unavailable, "full"); }});
  expect_error(ErrorCode::unavailable, {"full"}, [&] { ticket.result(); });
  EXPECT_NO_THROW(engine.generate(request(0)));
}

TEST(Engine, DrainsWhatItHasAndTakesNoMore) {
  Engine engine(config());
  Ticket first = engine.submit(request(0));
  Ticket second = engine.submit(request(1));
  EXPECT_TRUE(engine.drain(seconds(60)));
  EXPECT_EQ(first.status().state, RequestState::finished);
  EXPECT_EQ(second.status().state, RequestState::finished);
  EXPECT_FALSE(engine.health());
  expect_error(ErrorCode::unavailable, {"takes no requests", "shutting down"}, [&] { engine.submit(request(2)); });
}

TEST(Engine, ADeadlineCancelsWhatIsOpen) {
  Engine engine(config());
  Ticket running = engine.submit(request(0, 1000));
  Ticket waiting = engine.submit(request(1, 1000));
  EXPECT_FALSE(engine.drain(std::chrono::milliseconds(50)));
  EXPECT_EQ(running.status().state, RequestState::cancelled);
  EXPECT_EQ(waiting.status().state, RequestState::cancelled);
}

TEST(Engine, SeveralRanksAreRefusedByName) {
  EngineConfig several = config();
  several.parallel.sizes.data = 2;
  expect_error(ErrorCode::not_implemented, {"one rank"}, [&] { Engine engine(several); });
}

}  // namespace
}  // namespace lamina::test
