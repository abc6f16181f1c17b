#pragma once

#include <string>

namespace lamina {

/// A check for CLI11 options that take whole numbers: plain decimal digits, a minus sign in front where the number is
/// signed, within 64 bits. CLI11 alone reads 010 as 8, '' as 0 and clamps what does not fit.
std::string check_whole_number(const std::string& text);
/// The same for numbers from 0 up: a seed of -1 would wrap around, and other programs take it for "any".
std::string check_natural_number(const std::string& text);

}  // namespace lamina
