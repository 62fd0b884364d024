// SPDX-License-Identifier: MIT
// Macros for the sanitizer of this translation unit.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define VERBENA_ADDRESS_SANITIZER  ///< defined under AddressSanitizer
#elif defined(__SANITIZE_THREAD__)
#define VERBENA_THREAD_SANITIZER  ///< defined under ThreadSanitizer
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VERBENA_ADDRESS_SANITIZER
#elif __has_feature(thread_sanitizer)
#define VERBENA_THREAD_SANITIZER
#endif
#endif
