// Package owner connects a server to the program that owns it: the parent process that started it, tells it to start and to stop, and has
// functions that graphs call (PyFunc).
//
// The program listens at an address that only it and its children can reach, and hands them a token in the environment. The server
// opens connections there, each of which begins with a line that says what it is for, and has the token:
//
//	TROUPE 1 control TOKEN
//	TROUPE 1 calls TOKEN ADDRESS NUMBER
//
// The first carries lines of text in both directions: the server's reports of its start, and the commands start, stop and stop DURATION.
// When it ends, so does the server. Each of the others carries one function call after another; there are as many of them as functions that
// run at the same time. Output of a graph on the server's standard output cannot be mistaken for either.
//
// # Memory
//
// Where the system allows a parent to read and write its child's memory (process_vm_readv), large tensors are not sent: the program reads
// inputs in place, and writes results to the memory that the server has allocated. The line of a connection for calls has the address of a
// random number, and the number, both in hexadecimal. The program answers with a byte: accepted (1), accepted and the number was found
// there (2), or refused because too many abandoned calls still run (0).
//
// # A call
//
// Numbers are little-endian. A message begins with its kind (8 bits) and the size of what follows (32 bits), its head:
//
//	1 call     eager (8), bytes of the name (16), inputs (16), outputs (16); the name; the types of the outputs (8 each); the inputs' descriptions
//	2 taken    nothing: the program has read the inputs that lie in the server's memory
//	3 results  number (16); the results' descriptions
//	4 error    TensorFlow's code (32); the text
//	5 room     an address (64) for each result whose bytes are to be written
//	6 written  nothing: they are
//
// A description has the type (8, as tensorflow.DataType), the rank (8), whether the bytes are elsewhere than after the head (8), a zero
// (8), the number of bytes (64), the address (64) in the server's memory of an input whose bytes are there, and the dimensions (64 each).
// Bytes that are not elsewhere follow the head, in order. The bytes of strings are their lengths (64 each) and then the strings.
package owner
