#pragma once

#include <string>
#include <vector>

namespace lamina {

/// The prompts of a file, one a line: lines end in LF, CR LF or CR, those of white space alone are left out, a byte
/// order mark at the start is none of the first prompt's. Throws invalid_argument naming `--prompts`, the file and the
/// line for bytes that are not UTF-8 or zero, and where no prompt is left; not_found or unavailable for the file.
std::vector<std::string> read_prompt_file(const std::string& file);

}  // namespace lamina
