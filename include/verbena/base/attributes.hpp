// SPDX-License-Identifier: MIT
// Attributes that some compilers do not support.
#pragma once

#include "verbena/base/config.hpp"

/// Marks a parameter, or the object, to which the result of a function refers. Clang then warns if
/// the argument is a temporary that the result outlives.
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::lifetimebound)
#define VERBENA_LIFETIMEBOUND [[clang::lifetimebound]]
#endif
#endif
#ifndef VERBENA_LIFETIMEBOUND
#define VERBENA_LIFETIMEBOUND
#endif
