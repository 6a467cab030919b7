# Writes the bytes of a file as a C array, with a NUL behind them, under a header that declares it:
#   cmake -DINPUT=page.html -DHEADER=page.h -DNAME=page_html -DOUTPUT=page.c -P embed.cmake
file(READ ${INPUT} bytes HEX)
string(REPEAT "[0-9a-f]" 32 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\nconst unsigned char ${NAME}[] = {\n${bytes}0x00};\n")
