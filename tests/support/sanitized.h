/* Whether this build runs under AddressSanitizer, whose own memory would be most of what a test of memory measures. */
#ifndef FW_TESTS_SUPPORT_SANITIZED_H
#define FW_TESTS_SUPPORT_SANITIZED_H

#include <stdbool.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FW_TEST_SANITIZED true
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FW_TEST_SANITIZED true
#elif !defined(FW_TEST_SANITIZED)
#define FW_TEST_SANITIZED false
#endif

#endif
