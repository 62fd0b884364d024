// SPDX-License-Identifier: MIT
#include "examples/rcopy/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace rcopy {
namespace {

constexpr auto bar_interval = std::chrono::milliseconds(100);
constexpr auto line_interval = std::chrono::seconds(5);
constexpr std::size_t bar_columns = 24;
constexpr std::size_t name_columns = 20;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

/// Replaces control characters by `?` and shortens long names in the middle.
std::string shown(std::string name) {
  std::ranges::replace_if(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  if (name.size() > name_columns)
    name = name.substr(0, name_columns / 2 - 1) + ".." +
           name.substr(name.size() - name_columns / 2 + 1);
  return name;
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2;
  return format("%.*f %s", decimals, bytes, units[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds < 60) return format("%.*f s", seconds < 10 ? 2 : 1, seconds);
  const auto whole = static_cast<long>(seconds);
  if (whole < 3600) return format("%ld:%02ld min", whole / 60, whole % 60);
  return format("%ld:%02ld h", whole / 3600, whole / 60 % 60);
}

progress::progress(std::string name, std::uint64_t total_bytes, display show)
    : name_(shown(std::move(name))),
      total_(total_bytes),
      bar_(::isatty(STDERR_FILENO) == 1),
      silent_(show == display::none),
      start_(clock::now()),
      next_draw_(start_ + (bar_ ? clock::duration(bar_interval) : clock::duration(line_interval))) {
}

progress::~progress() {
  if (!bar_ || !drawn_) return;
  std::fputs("\r\033[K", stderr);  // erases the bar before the result is printed
}

void progress::add(std::uint64_t bytes) {
  done_ += bytes;
  if (silent_) return;
  const auto now = clock::now();
  if (now >= next_draw_ || (bar_ && done_ == total_)) draw(now);
}

std::string progress::line(clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double share = total_ == 0 ? 1 : static_cast<double>(done_) / static_cast<double>(total_);
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  std::string text = name_;
  if (bar_) {
    const auto full = static_cast<std::size_t>(share * bar_columns);
    text += " [" + std::string(full, '#') + std::string(bar_columns - full, '.') + "]";
  }
  text += format(" %3.0f%% ", share * 100) + bytes_text(rate) + "/s";
  if (rate > 0) text += ", " + seconds_text(static_cast<double>(total_ - done_) / rate) + " left";
  return text;
}

void progress::draw(clock::time_point now) {
  const auto text = line(now);
  if (bar_)
    std::fprintf(stderr, "\r%s\033[K", text.c_str());
  else
    std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
  drawn_ = true;
  next_draw_ = now + (bar_ ? clock::duration(bar_interval) : clock::duration(line_interval));
}

}  // namespace rcopy
