// SPDX-License-Identifier: MIT
// The content of `verbena devinfo`: keys and typed values. The table and the JSON are printed from
// one document, so that both have the same content.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "verbena/base/flags.hpp"

namespace verbena::tool {

/// The unit of a number. JSON keys end with the unit: `hca_core_clock_hz`.
enum class unit : std::uint8_t { none, bytes, hertz, bits_per_second, seconds, lanes };

/// Returns the suffix of keys with this unit: `bytes`, `hz`, …
[[nodiscard]] std::string_view suffix(unit of);

struct field;
/// The fields in display order.
using section = std::vector<field>;

/// An unknown value: the device does not report it.
using unknown = std::monostate;

/// A number that is displayed in hexadecimal.
struct hexadecimal {
  std::uint64_t number = 0;
};

/// A value of an enumeration. The name of an unknown value is `unknown (7)`.
struct enumerated {
  std::int64_t number = 0;
  std::string name;
};

/// A set of bits: the mask, and the names of the known bits.
struct bit_set {
  std::uint64_t mask = 0;
  std::vector<std::string> names;
};

/// A code and the amount that it encodes; nullopt if the code is unknown.
struct coded {
  std::int64_t code = 0;
  std::optional<double> amount;
};

/// One value. Lists hold sections with the same keys.
using value = std::variant<unknown, std::int64_t, std::uint64_t, double, std::string, hexadecimal,
                           enumerated, bit_set, coded, section, std::vector<section>>;

/// The outputs that contain a field: all, only JSON, or only the table.
enum class audience : std::uint8_t { everybody, programs, people };

/// A key and its value. Threads: one thread at a time.
struct field {
  std::string key;
  tool::value value;
  tool::unit unit = unit::none;
  tool::audience audience = audience::everybody;
};

/// Returns the value of a typed set of bits, with the names of to_string().
template <class Enum>
[[nodiscard]] bit_set bits(flags<Enum> set);

/// Splits `names | of | bits` and omits bits without a name.
[[nodiscard]] std::vector<std::string> split_names(const std::string& text);

template <class Enum>
bit_set bits(flags<Enum> set) {
  return {.mask = set.mask(), .names = split_names(to_string(set))};
}

}  // namespace verbena::tool
