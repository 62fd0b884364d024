// SPDX-License-Identifier: MIT
// Attributes that not every compiler knows.
#pragma once

#include "verbena/base/config.hpp"

/// After a parameter: what the function returns, or the object that it makes, refers to the
/// argument. Clang then warns of temporaries and of locals that are returned.
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::lifetimebound)
#define VERBENA_LIFETIMEBOUND [[clang::lifetimebound]]
#endif
#endif
#ifndef VERBENA_LIFETIMEBOUND
#define VERBENA_LIFETIMEBOUND
#endif
