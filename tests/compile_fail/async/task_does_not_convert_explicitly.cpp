// SPDX-License-Identifier: MIT
// A task returns a value that is converted implicitly, as an ordinary function does.
// expect: return_value
#include <chrono>

#include "verbena/async/task.hpp"

#ifdef VERBENA_BAD
verbena::async::task<std::chrono::nanoseconds> pause() { co_return 5; }
#else
verbena::async::task<std::chrono::nanoseconds> pause() { co_return std::chrono::seconds(5); }
#endif

auto use() { return pause(); }
