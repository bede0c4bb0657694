// Package files is the only way from kernels to the file system. An FS is what one session may do with files on
// one server: all that the server's process may (All), what lies below some folders (Confine), or nothing (None).
// Kernels get theirs with the step that they run in, and no other package of kernels opens files by their paths.
//
// Only regular files are opened: a named pipe would hang the thread that opens it, and a device has effects of its
// own. Below the folders of Confine, nothing follows a link out of them, even one that is put there meanwhile.
//
// Read, Write and Match do with an FS what TensorFlow's ops do with files, with its errors: the code that
// corresponds to the system's error number, and "name; No such file or directory".
package files
