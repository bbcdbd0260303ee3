// What is read of the environment before, or below, the table of variables (options.h): by the preloaded library when
// it is loaded, where nothing may allocate. Called by src/heap and src/mpi/entry/resolve.cpp; refuses to know the
// table.
#pragma once

#include <initializer_list>

namespace zh {

/// Is `value` (may be null) this word, as the table would read it: blanks around it and capitals do not count?
constexpr bool is_word(const char* value, const char* word) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  if (value == nullptr) return false;
  while (blank(*value)) ++value;
  for (; *word != '\0'; ++word, ++value) {
    const char c = *value >= 'A' && *value <= 'Z' ? static_cast<char>(*value - 'A' + 'a') : *value;
    if (c != *word) return false;
  }
  while (blank(*value)) ++value;
  return *value == '\0';
}

/// Does the value of a variable of type bool say no?
constexpr bool says_no(const char* value) {
  for (const char* word : {"0", "n", "no", "off", "false"}) {
    if (is_word(value, word)) return true;
  }
  return false;
}

}  // namespace zh
