// Checks of the programs in C++: each has a name, and says how it went.
#ifndef RTE_TESTS_CHECK_HPP
#define RTE_TESTS_CHECK_HPP

#include <cstdio>
#include <string>

inline int checks = 0, failures = 0;

inline void check(const std::string &name, bool holds, int line)
{
    ++checks;
    failures += holds ? 0 : 1;
    std::printf("%s: %s (line %d)\n", name.c_str(), holds ? "ok" : "FAILED", line);
}

#define CHECK(name, condition) check((name), (condition), __LINE__)
#define EQUAL(name, seen, expected) check((name), (seen) == (expected), __LINE__)

// What main returns.
inline int finish()
{
    std::printf("%d checks, %d failed\n", checks, failures);
    return failures != 0 ? 1 : 0;
}

#endif
