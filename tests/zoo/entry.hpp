// SPDX-License-Identifier: MIT
// An entry: a classic mistake, its effect, its detection, and a correct twin. README.md describes
// how to add an entry. scripts/zoo.py runs the entries and evaluates the results.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace verbena::zoo {

/// Effect of a mistake that no check stops.
enum class harm : std::uint8_t {
  wrong_data,  ///< bytes that no peer sent, lost bytes, or bytes at a wrong place
  hang,        ///< the expected event did not occur within `short_deadline()`
  crash,       ///< a signal ended the process
  leak,        ///< an object of the device or the process that can no longer be released
};

/// The check that detects the mistake.
enum class level : std::uint8_t {
  compiler,    ///< does not compile: a case of tests/compile_fail
  stop,        ///< the library aborts with a usage error
  value,       ///< the text of a result, an error or a completion states the mistake
  unwritable,  ///< the interface cannot express the mistake; the closest program has no effect
};

/// Whether a Rust crate prevents the mistake, according to its sources. No crate was run.
enum class answer : std::uint8_t {
  yes,      ///< by its types or by a check
  no,       ///< safe code can do it, or the interface is `unsafe` and leaves it to the caller
  absent,   ///< the crate does not have the function that the mistake needs
  unknown,  ///< not established
};
struct crate {
  answer stops;
  const char* why;  ///< the reason in its sources; empty only for unknown
};

using form = void (*)();

struct entry {
  const char* name;     ///< the mistake, at most 40 characters
  const char* kind;     ///< the class of the mistake
  const char* mistake;  ///< a description of one line
  const char* seen;     ///< an occurrence: a project and its issue, or a man page
  harm does;
  level caught_by;
  /// Level `compiler`: MODULE/RULE of tests/compile_fail. Other levels: a regular expression for
  /// the output of `caught`: the usage error, or the argument of `reported()` or `verified()`.
  const char* words;
  crate ibverbs;
  crate ibverbs_rs;
  crate rrddmma;
  /// Makes the mistake with the checker off, by C verbs if the library prevents it. Calls harmed()
  /// after it has observed the effect, or crashes.
  form harmful;
  /// Makes the mistake in this library's API. nullptr for `compiler`.
  form caught;
  /// Does the task correctly, with all checks on, and returns.
  form twin;
  /// Level `unwritable`: what reports the mistake to a program of C verbs, as a regular expression
  /// for the output of `harmful` with the checker on. nullptr: nothing reports it.
  const char* in_c_verbs = nullptr;
};

/// Ends `harmful` and reports the observed effect.
[[noreturn]] void harmed(const std::string& what);
/// Ends `caught` of level `value` and reports the text of the library.
[[noreturn]] void reported(const std::string& what);
/// In `caught` of level `unwritable`, reports the verified property. The form then returns.
void verified(const std::string& what);
/// Fails the entry.
[[noreturn]] void failed(std::string_view what);
/// Fails the entry if a precondition of the form does not hold.
inline void require(bool fact, std::string_view what) {
  if (!fact) failed(what);
}

// The classes of mistakes, one per file.
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
std::span<const entry> asynchronous();

}  // namespace verbena::zoo
