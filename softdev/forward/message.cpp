// SPDX-License-Identifier: MIT
#include "softdev/forward/message.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>

namespace verbena::forward {

void complain(const char* what, const char* why) noexcept {
  const int saved = errno;
  std::array<char, 1024> text;
  const int length = std::snprintf(text.data(), text.size(), "verbena: %s%s\n", what, why);
  if (length > 0) {
    const auto bytes = static_cast<std::size_t>(length);
    const ssize_t written =
        write(STDERR_FILENO, text.data(), bytes < text.size() ? bytes : text.size() - 1);
    static_cast<void>(written);
  }
  errno = saved;
}

}  // namespace verbena::forward
