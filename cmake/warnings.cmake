# onlyonce_warnings: linked privately, by our own targets only.
add_library(onlyonce_warnings INTERFACE)
target_compile_options(onlyonce_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wundef
  -Wwrite-strings -Wcast-qual -Wcast-align -Wpointer-arith -Wformat=2 -Wvla
  -Wimplicit-fallthrough -Wdouble-promotion -Wnull-dereference)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(onlyonce_warnings INTERFACE
    -Wformat-signedness -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Walloca)
endif()
if(ONLYONCE_WERROR)
  target_compile_options(onlyonce_warnings INTERFACE -Werror)
endif()
