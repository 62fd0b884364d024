// SPDX-License-Identifier: MIT
#include "verbena/base/error.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "verbena/base/exception.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

error make(error_kind kind, int code, std::string_view call, std::string_view object,
           std::string_view diagnosis) {
  return error({kind, code, std::string(call), std::string(object), std::string(diagnosis)});
}

std::string reason_of(const error::parts& parts) {
  if (parts.kind == error_kind::completion)
    return "completed with status " + std::to_string(parts.code);
  if (parts.code == 0)
    return parts.kind == error_kind::not_supported ? "is not supported" : "failed";
  const std::string text = std::generic_category().message(parts.code);
  const char* verb = parts.kind == error_kind::not_supported ? "is not supported: " : "failed: ";
  return verb + text + " (errno " + std::to_string(parts.code) + ")";
}

}  // namespace

error error::from_errno(int code, std::string_view call, std::string_view object,
                        std::string_view diagnosis) {
  const bool unsupported = code == EOPNOTSUPP || code == EPROTONOSUPPORT;
  return make(unsupported ? error_kind::not_supported : error_kind::os, code, call, object,
              diagnosis);
}
error error::not_supported(std::string_view call, std::string_view object,
                           std::string_view diagnosis) {
  return make(error_kind::not_supported, EOPNOTSUPP, call, object, diagnosis);
}
error error::invalid_argument(std::string_view call, std::string_view object,
                              std::string_view diagnosis) {
  return make(error_kind::invalid_argument, EINVAL, call, object, diagnosis);
}
error error::timed_out(std::string_view call, std::string_view object, std::string_view diagnosis) {
  return make(error_kind::timed_out, ETIMEDOUT, call, object, diagnosis);
}
error error::protocol(std::string_view call, std::string_view object, std::string_view diagnosis) {
  return make(error_kind::protocol, EPROTO, call, object, diagnosis);
}
error error::unavailable(int code, std::string_view call, std::string_view object,
                         std::string_view diagnosis) {
  return make(error_kind::unavailable, code, call, object, diagnosis);
}

bool error::is(std::errc value) const noexcept {
  return parts_.kind != error_kind::completion && parts_.code == static_cast<int>(value);
}

std::string error::message() const {
  std::string line = parts_.call;
  if (!parts_.object.empty()) line += " on " + parts_.object;
  line += ' ' + reason_of(parts_);
  if (!parts_.diagnosis.empty()) line += ": " + parts_.diagnosis;
  return line;
}

error error::with_diagnosis(std::string_view more) && {
  if (!parts_.diagnosis.empty()) parts_.diagnosis += "; ";
  parts_.diagnosis += more;
  return std::move(*this);
}

void raise(error what) {
#ifdef VERBENA_NO_EXCEPTIONS
  std::fprintf(stderr, "verbena: value() of an error: %s\n", what.message().c_str());
  std::abort();
#else
  throw exception(std::move(what));
#endif
}

}  // namespace verbena::inline VERBENA_ABI
