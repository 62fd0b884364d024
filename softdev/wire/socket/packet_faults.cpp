// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/packet_faults.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

namespace verbena::softdev::wire {
namespace {

constexpr std::uint32_t million = 1'000'000;
/// The additional delay of a reordered packet: the duration of a few packets at 1 Gbit/s.
constexpr time_ns overtaken_by = 300'000;
constexpr time_ns longest_delay = 10'000'000'000;

/// Parses an unsigned number with up to four decimals. Returns it in ten-thousandths. Returns
/// nullopt if the text is not such a number or if the number exceeds `most`.
std::optional<std::uint64_t> ten_thousandths(std::string_view text, std::uint64_t most) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  std::string decimals(text.substr(std::min(point + 1, text.size())));
  constexpr std::size_t places = 4;
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  if (whole.empty() || whole.size() > 10 || decimals.size() > places ||
      (point < text.size() && decimals.empty()) || !std::ranges::all_of(whole, is_digit) ||
      !std::ranges::all_of(decimals, is_digit))
    return std::nullopt;
  decimals.resize(places, '0');
  const std::string digits = std::string(whole) + decimals;
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (number > most * 10'000) return std::nullopt;
  return number;
}

/// Parses a percentage, for example `1%` or `0.01%`.
bool read_rate(std::string_view text, std::uint32_t& out) {
  if (!text.ends_with('%')) return false;
  const auto number = ten_thousandths(text.substr(0, text.size() - 1), 100);
  if (number) out = static_cast<std::uint32_t>(*number);
  return number.has_value();
}

/// Parses a time, for example `200us`, `1.5ms` or `1s`.
bool read_delay(std::string_view text, time_ns& out) {
  struct unit {
    std::string_view name;
    time_ns ns;
  };
  for (const unit& each : {unit{"us", 1'000}, unit{"ms", 1'000'000}, unit{"s", 1'000'000'000}}) {
    if (!text.ends_with(each.name)) continue;
    const auto number =
        ten_thousandths(text.substr(0, text.size() - each.name.size()), longest_delay / each.ns);
    if (number) out = *number * each.ns / 10'000;
    return number.has_value();
  }
  return false;
}

bool read_seed(std::string_view text, std::uint64_t& out) {
  const char* const end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, out);
  return failed == std::errc() && stop == end;
}

/// Returns nullptr, or the valid values if the part is invalid.
const char* read_part(std::string_view name, std::string_view value, fault_rates& out) {
  struct rate {
    std::string_view name;
    std::uint32_t& value;
  };
  for (const rate& each :
       {rate{"loss", out.loss}, rate{"duplicate", out.duplicate}, rate{"reorder", out.reorder},
        rate{"corrupt", out.corrupt}, rate{"mark", out.mark}})
    if (name == each.name)
      return read_rate(value, each.value) ? nullptr : "a percentage from 0% to 100%, as 0.5%";
  if (name == "delay")
    return read_delay(value, out.delay) ? nullptr : "a time with unit up to 10s, as 200us or 2ms";
  if (name == "seed") return read_seed(value, out.seed) ? nullptr : "a number of up to 64 bits";
  return "loss=, duplicate=, reorder=, corrupt=, mark=, delay= or seed=VALUE";
}

}  // namespace

std::optional<fault_rates> parse_faults(std::string_view text, std::string& wrong) {
  fault_rates found;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    const std::string_view value = part.substr(std::min(equals + 1, part.size()));
    if (const char* const rule = read_part(name, value, found); rule != nullptr) {
      wrong = "'" + std::string(part.substr(0, 20)) + "' must be " + rule;
      return std::nullopt;
    }
  }
  return found;
}

/// SplitMix64: each state gives a different number.
std::uint64_t packet_faults::draw(std::uint64_t& state) noexcept {
  state += 0x9e37'79b9'7f4a'7c15U;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d0'49bb'1331'11ebU;
  return mixed ^ (mixed >> 31U);
}

bool packet_faults::happens(std::uint32_t rate) noexcept { return draw(state_) % million < rate; }

/// Draws the same number of random values for each packet, so that one rate does not influence
/// another fault.
packet_faults::decision packet_faults::next() noexcept {
  decision made;
  made.lost = happens(rates_.loss);
  made.duplicated = happens(rates_.duplicate);
  made.corrupted = happens(rates_.corrupt);
  const bool overtaken = happens(rates_.reorder);
  const std::uint64_t bit = draw(state_);
  made.marked = draw(marks_) % million < rates_.mark;
  if (made.lost) return {.lost = true};
  if (made.corrupted) made.bit = bit;
  made.delay = rates_.delay + (overtaken ? overtaken_by : 0);
  return made;
}

}  // namespace verbena::softdev::wire
