#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <sstream>
#include <string>

namespace lamina::testing {

/// Collects the log while it lives.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("captured", std::move(sink)));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text() const { return text_.str(); }
  std::ptrdiff_t lines() const {
    const std::string text = text_.str();
    return std::count(text.begin(), text.end(), '\n');
  }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream text_;
};

}  // namespace lamina::testing
