// SPDX-License-Identifier: MIT
// What `verbena devinfo` shows, before it is printed: keys and typed values. Table and JSON are two
// printings of one document, so neither can lack what the other has.
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

/// What a number counts. The unit is part of the key in JSON: `hca_core_clock_hz`.
enum class unit : std::uint8_t { none, bytes, hertz, bits_per_second, seconds, lanes };

/// `bytes`, `hz`, …: what the key of a number with this unit ends in.
[[nodiscard]] std::string_view suffix(unit of);

struct field;
/// Fields in the order in which they are shown.
using section = std::vector<field>;

/// Nothing: the device does not say.
using unknown = std::monostate;

/// A number that people read in base 16.
struct hexadecimal {
  std::uint64_t number = 0;
};

/// One of an enumeration. The name of a value that has none is `unknown (7)`.
struct enumerated {
  std::int64_t number = 0;
  std::string name;
};

/// A set of bits: those with names, and all as a number.
struct bit_set {
  std::uint64_t mask = 0;
  std::vector<std::string> names;
};

/// A code and the amount that it stands for; nothing if the code has no meaning.
struct coded {
  std::int64_t code = 0;
  std::optional<double> amount;
};

/// One value. Lists hold sections with the same keys.
using value = std::variant<unknown, std::int64_t, std::uint64_t, double, std::string, hexadecimal,
                           enumerated, bit_set, coded, section, std::vector<section>>;

/// Who sees a field.
enum class audience : std::uint8_t { everybody, programs, people };

/// A key and its value. Threads: one thread at a time.
struct field {
  std::string key;
  tool::value value;
  tool::unit unit = unit::none;
  tool::audience audience = audience::everybody;
};

/// The value of a typed set of bits; its names are those that to_string() prints.
template <class Enum>
[[nodiscard]] bit_set bits(flags<Enum> set);

/// The words of `names | of | bits`, without the bits that have no name.
[[nodiscard]] std::vector<std::string> split_names(const std::string& text);

template <class Enum>
bit_set bits(flags<Enum> set) {
  return {.mask = set.mask(), .names = split_names(to_string(set))};
}

}  // namespace verbena::tool
