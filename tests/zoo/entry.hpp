// SPDX-License-Identifier: MIT
// An entry of the zoo: a classic mistake, the harm that it does, what catches it here, and a legal
// twin. README.md says how one is written; scripts/zoo.py runs them and judges.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace verbena::zoo {

/// Effect of a mistake that no check stops.
enum class harm : std::uint8_t {
  wrong_data,  ///< bytes that no peer sent, lost bytes, bytes in the wrong place
  hang,        ///< the awaited event did not occur within a time in which the twin ends
  crash,       ///< the process dies by a signal
  leak,        ///< an object of the device or the process that can no longer be released
};

/// The check that detects the mistake.
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
  const char* why;  ///< the reason in its sources; empty only for unknown
};

using form = void (*)();

struct entry {
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
/// Any form: something that the form takes for granted must be so; else the entry fails.
void require(bool fact, std::string_view what);

// The classes, a file each.
std::span<const entry> lifetime();
std::span<const entry> aliasing();
std::span<const entry> ordering();
std::span<const entry> queue_accounting();
std::span<const entry> state_machine();
std::span<const entry> keys_and_bounds();
std::span<const entry> events();

std::span<const entry> threads();
std::span<const entry> teardown();
std::span<const entry> byte_order();
std::span<const entry> datagram_header();
std::span<const entry> request_numbers();
std::span<const entry> inline_limits();
std::span<const entry> forks();

}  // namespace verbena::zoo
