// SPDX-License-Identifier: MIT
// A fuzz target: a function that reads bytes from outside, and its name. The preset `fuzz` builds
// one program with libFuzzer for each target (libfuzzer.cpp). Each other preset builds one program
// that runs the stored inputs of all targets (replay.cpp), and writes the seeds that the targets
// make of real messages. docs/testing.md lists the targets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace verbena::fuzz {

using input = std::span<const std::byte>;

/// Ends the program unless a property holds.
inline void require(bool holds,
                    const std::source_location& where = std::source_location::current()) noexcept {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: a required property does not hold in %s\n", where.file_name(),
               static_cast<unsigned>(where.line()), where.function_name());
  std::abort();
}

/// Writes inputs made of real messages to a folder. Threads: one thread at a time.
class seed_folder {
 public:
  explicit seed_folder(std::string path) : path_(std::move(path)) {}
  void add(const char* name, input bytes) {
    std::FILE* const file = std::fopen((path_ + "/" + name).c_str(), "we");
    const bool written =
        file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    require(written && std::fclose(file) == 0);
  }
  void add(const char* name, std::string_view text) { add(name, std::as_bytes(std::span(text))); }

 private:
  std::string path_;
};

/// Adds itself to the targets of the program. Threads: created before main(), then immutable.
class target {
 public:
  target(const char* name, void (*body)(input bytes), void (*seeds)(seed_folder& into)) noexcept
      : name_(name), run_(body), seeds_(seeds), next_(newest) {
    newest = this;
  }
  [[nodiscard]] const char* name() const noexcept { return name_; }
  void run(input bytes) const { run_(bytes); }
  void write_seeds(seed_folder& into) const { seeds_(into); }

  /// Returns the first target of the program, or nullptr.
  [[nodiscard]] static const target* first() noexcept { return newest; }
  [[nodiscard]] const target* next() const noexcept { return next_; }

 private:
  static inline const target* newest = nullptr;
  const char* name_;
  void (*run_)(input bytes);
  void (*seeds_)(seed_folder& into);
  const target* next_;
};

/// Takes values from the front of an input; zeros behind its end. Threads: one thread at a time.
class reader {
 public:
  explicit reader(input bytes) noexcept : rest_(bytes) {}

  template <class T>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] T take() noexcept {
    T value{};
    const std::size_t count = std::min(sizeof value, rest_.size());
    if (count > 0) std::memcpy(&value, rest_.data(), count);
    rest_ = rest_.subspan(count);
    return value;
  }
  [[nodiscard]] input take_bytes(std::size_t count) noexcept {
    const input taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  [[nodiscard]] input rest() const noexcept { return rest_; }
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

 private:
  input rest_;
};

/// Puts values one after another: the input of a seed. Threads: one thread at a time.
class writer {
 public:
  template <class T>
    requires(std::is_trivially_copyable_v<T> && !std::is_convertible_v<const T&, input>)
  writer& put(const T& value) {
    return put(std::as_bytes(std::span(&value, 1)));
  }
  writer& put(input bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  [[nodiscard]] input bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Returns the bytes as text in memory of its own, so that ASan finds reads behind its end.
[[nodiscard]] inline std::string text_of(input bytes) {
  std::string text(bytes.size(), '\0');
  if (!bytes.empty()) std::memcpy(text.data(), bytes.data(), bytes.size());
  return text;
}

}  // namespace verbena::fuzz
