# Writes the bytes of a file as a C array, with a NUL behind them, under a header that declares it:
#   cmake -DINPUT=page.html -DHEADER=page.h -DNAME=page_html -DOUTPUT=page.c -P embed.cmake
# A line {{NAME}} of it stands for the file of that name, which is beside it.
file(READ ${INPUT} text)
get_filename_component(folder ${INPUT} DIRECTORY)
string(REGEX MATCHALL "{{[^}\n]*}}\n" lines "${text}")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^{{(.*)}}\n$" "\\1" name "${line}")
  file(READ ${folder}/${name} part)
  string(REPLACE "${line}" "${part}" text "${text}")
endforeach()
file(WRITE ${OUTPUT}.joined "${text}")
file(READ ${OUTPUT}.joined bytes HEX)
string(REPEAT "[0-9a-f]" 32 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\nconst unsigned char ${NAME}[] = {\n${bytes}0x00};\n")
