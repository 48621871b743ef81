/* Numbers as Python prints, compares and reads them. Ints have 64 bits; what would not fit is an error (Python's grow). */
#ifndef FW_TEXT_JINJA_NUMBER_H
#define FW_TEXT_JINJA_NUMBER_H

#include "text/jinja/jinja_value.h"

/* -1, 0, 1, or 2 when one is not a number. */
int fw_jinja_compare_numbers(const fw_jinja_value *a, const fw_jinja_value *b);

enum { FW_JINJA_REAL_BYTES = 40 };
/* repr(value): the fewest digits that read back the same. Returns its length. */
int fw_jinja_print_real(char out[FW_JINJA_REAL_BYTES], double value);
/* int(text, base) and float(text): false when Python would raise ValueError, or the int has more than 64 bits. */
bool fw_jinja_read_int(int64_t *out, const char *text, size_t bytes, int base);
bool fw_jinja_read_real(double *out, const char *text, size_t bytes);
/* Is a real a whole number that an int can hold? */
bool fw_jinja_fits_int(double value);

#endif
