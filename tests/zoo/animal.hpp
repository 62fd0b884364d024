// SPDX-License-Identifier: MIT
// An animal of the zoo: a classic mistake, the harm that it does, what catches it here, and a legal
// twin. README.md says how one is written; scripts/zoo.py runs them and judges.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace verbena::zoo {

/// What the mistake does where nothing stops it.
enum class harm : std::uint8_t {
  wrong_data,  ///< bytes that nobody sent, bytes that are gone, bytes in the wrong place
  hang,        ///< what was waited for did not come, within a time in which the twin is long done
  crash,       ///< the process dies by a signal
  leak,        ///< something of the device or of the process that nobody can give back any more
};

/// What catches it here.
enum class level : std::uint8_t {
  compiler,    ///< does not compile: a case of tests/compile_fail
  stop,        ///< the library stops the program and names the rule
  value,       ///< the library says so by a result, an error or a completion, in words
  unwritable,  ///< the interface has no word for the mistake: the nearest program does no harm
};

/// Whether a Rust crate stops the mistake: read from its sources, not tried.
enum class answer : std::uint8_t {
  yes,      ///< by its types or by a check
  no,       ///< safe code can do it, or the interface is `unsafe` and leaves it to the caller
  absent,   ///< the crate does not have what the mistake is made with
  unknown,  ///< not established
};
struct crate {
  answer stops;
  const char* why;  ///< what in its sources says so; empty only when it is unknown
};

using form = void (*)();

struct animal {
  const char* name;     ///< a sentence, as names of tests are
  const char* kind;     ///< its class
  const char* mistake;  ///< one line
  const char* seen;     ///< where in the wild: a project and its thread, or a man page
  harm does;
  level caught_by;
  /// compiler: MODULE/RULE of tests/compile_fail. Others: a regular expression for what is said by
  /// the form `caught`: the rule that stops it, the text of the value, or of `held()`.
  const char* words;
  crate ibverbs;
  crate ibverbs_rs;
  crate rrddmma;
  /// Makes the mistake with the checker off, by C verbs where the library would not let it, and
  /// ends by harmed() when it has seen the harm; a crash crashes.
  form harmful;
  /// Makes the mistake in this library's API. nullptr for `compiler`.
  form caught;
  /// Does the same legally, with all checks on, and returns.
  form twin;
};

/// Ends `harmful`: the harm was seen, and this is what it was.
[[noreturn]] void harmed(const std::string& what);
/// Ends `caught` of level `value`: what the library said.
[[noreturn]] void told(const std::string& what);
/// In `caught` of level `unwritable`: what was seen to be in order. The form then returns.
void held(const std::string& what);
/// Any form: something that the form takes for granted must be so; else the animal fails.
void require(bool fact, std::string_view what);

// The classes, a file each.
std::span<const animal> lifetime();
std::span<const animal> aliasing();
std::span<const animal> ordering();
std::span<const animal> queue_accounting();
std::span<const animal> state_machine();
std::span<const animal> keys_and_bounds();
std::span<const animal> events();

std::span<const animal> threads();
std::span<const animal> teardown();
std::span<const animal> byte_order();
std::span<const animal> datagram_header();
std::span<const animal> request_numbers();
std::span<const animal> inline_limits();
std::span<const animal> forks();

}  // namespace verbena::zoo
