// SPDX-License-Identifier: MIT
#include "verbena/base/error.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "src/base/completion_text.hpp"
#include "verbena/base/exception.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

std::string reason_of(const error& what) {
  if (what.kind() == error_kind::completion)
    return "completed with status " + std::to_string(what.code());
  const bool unsupported = what.kind() == error_kind::not_supported;
  if (what.code() == 0) return unsupported ? "is not supported" : "failed";
  return (unsupported ? "is not supported: " : "failed: ") +
         std::generic_category().message(what.code()) + " (errno " + std::to_string(what.code()) +
         ")";
}

class status_category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "verbena.completion"; }
  [[nodiscard]] std::string message(int value) const override {
    const auto* const found = detail::find_completion_text(static_cast<std::uint32_t>(value));
    if (found == nullptr) return "completion status " + std::to_string(value);
    return std::string(found->name).append(" (").append(found->meaning).append(")");
  }
  [[nodiscard]] std::error_condition default_error_condition(int value) const noexcept override {
    switch (value) {
      case 5:  // IBV_WC_WR_FLUSH_ERR; this module does not include verbs.h
        return std::errc::operation_canceled;
      case 12:  // IBV_WC_RETRY_EXC_ERR
      case 13:  // IBV_WC_RNR_RETRY_EXC_ERR
      case 20:  // IBV_WC_RESP_TIMEOUT_ERR
        return std::errc::timed_out;
      default:
        return {value, *this};
    }
  }
};

class kind_category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "verbena"; }
  [[nodiscard]] std::string message(int value) const override {
    switch (static_cast<error_kind>(value)) {
      case error_kind::os:
        return "a call failed without an errno";
      case error_kind::completion:
        return "a work request failed";
      case error_kind::not_supported:
        return "not supported by the device, the provider or the build";
      case error_kind::invalid_argument:
        return "invalid argument";
      case error_kind::timed_out:
        return "the deadline passed";
      case error_kind::protocol:
        return "received bytes violate the protocol";
      case error_kind::unavailable:
        return "a library, module or device is missing";
    }
    return "unknown error " + std::to_string(value);
  }
  [[nodiscard]] std::error_condition default_error_condition(int value) const noexcept override {
    switch (static_cast<error_kind>(value)) {
      case error_kind::not_supported:
        return std::errc::operation_not_supported;
      case error_kind::invalid_argument:
        return std::errc::invalid_argument;
      case error_kind::timed_out:
        return std::errc::timed_out;
      case error_kind::protocol:
        return std::errc::protocol_error;
      case error_kind::unavailable:
        return std::errc::no_such_device;
      case error_kind::os:
      case error_kind::completion:
        break;
    }
    return {value, *this};
  }
};

}  // namespace

error::error(error_kind kind, int code, text_argument call, text_argument object,
             text_argument diagnosis)
    : call_(call), object_(object), diagnosis_(diagnosis), code_(code), kind_(kind) {}

error error::from_errno(int code, text_argument call, text_argument object,
                        text_argument diagnosis) {
  const bool unsupported = code == EOPNOTSUPP || code == EPROTONOSUPPORT;
  return {unsupported ? error_kind::not_supported : error_kind::os, code, call, object, diagnosis};
}
error error::not_supported(text_argument call, text_argument object, text_argument diagnosis) {
  return {error_kind::not_supported, EOPNOTSUPP, call, object, diagnosis};
}
error error::invalid_argument(text_argument call, text_argument object, text_argument diagnosis) {
  return {error_kind::invalid_argument, EINVAL, call, object, diagnosis};
}
error error::timed_out(text_argument call, text_argument object, text_argument diagnosis) {
  return {error_kind::timed_out, ETIMEDOUT, call, object, diagnosis};
}
error error::protocol(text_argument call, text_argument object, text_argument diagnosis) {
  return {error_kind::protocol, EPROTO, call, object, diagnosis};
}
error error::unavailable(int code, text_argument call, text_argument object,
                         text_argument diagnosis) {
  return {error_kind::unavailable, code, call, object, diagnosis};
}

bool error::is(std::errc value) const noexcept {
  return kind_ != error_kind::completion && code_ == static_cast<int>(value);
}

std::string error::message() const {
  std::string line = call_.string();
  if (!object_.empty()) line.append(" on ").append(object_.view());
  line.append(" ").append(reason_of(*this));
  if (!diagnosis_.empty()) line.append(": ").append(diagnosis_.view());
  return line;
}

error error::with_diagnosis(std::string_view more) && {
  std::string text = diagnosis_.string();
  if (!text.empty()) text += "; ";
  text += more;
  diagnosis_ = shared_text(text);
  return std::move(*this);
}

void raise(error what) {
#ifdef VERBENA_NO_EXCEPTIONS
  std::fprintf(stderr, "verbena: value() was called on a failed result: %s\n",
               what.message().c_str());
  std::abort();
#else
  throw exception(std::move(what));
#endif
}

int print_error(const error& what) {
  std::fprintf(stderr, "error: %s\n", what.message().c_str());
  return 1;
}

const std::error_category& category() noexcept {
  static const kind_category instance;
  return instance;
}

const std::error_category& completion_category() noexcept {
  static const status_category instance;
  return instance;
}

std::error_code make_error_code(error_kind kind) noexcept {
  return {static_cast<int>(kind), category()};
}

std::error_code make_error_code(const error& what) noexcept {
  switch (what.kind()) {
    case error_kind::completion:
      return {what.code(), completion_category()};
    case error_kind::invalid_argument:
    case error_kind::timed_out:
    case error_kind::protocol:
      return make_error_code(what.kind());
    case error_kind::os:
    case error_kind::not_supported:
    case error_kind::unavailable:
      break;
  }
  if (what.code() == 0) return make_error_code(what.kind());
  return {what.code(), std::generic_category()};
}

}  // namespace verbena::inline VERBENA_ABI
