// SPDX-License-Identifier: MIT
// The inline namespace of all public names. It differs between variants of the library that must
// not be mixed in one program, so that mixing them is a link error.
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
