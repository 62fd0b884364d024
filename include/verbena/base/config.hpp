// SPDX-License-Identifier: MIT
// The namespace tag that every public name carries. Variants of the library that must not be mixed
// in one program differ in it, so that mixing them is a link error.
#pragma once

#if defined(VERBENA_NO_EXCEPTIONS) && defined(VERBENA_CHECKED)
#define VERBENA_ABI v0_no_exceptions_checked
#elif defined(VERBENA_NO_EXCEPTIONS)
#define VERBENA_ABI v0_no_exceptions
#elif defined(VERBENA_CHECKED)
#define VERBENA_ABI v0_checked
#else
#define VERBENA_ABI v0
#endif
