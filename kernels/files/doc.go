// Package files is the only way from kernels to the file system. An FS defines what one session may do with files on one server: everything
// that the server's process may do (All), access to some folders (Confine), or nothing (None). A kernel gets its FS with its step. No other
// package of kernels opens files by path.
//
// Only regular files are opened. Opening a named pipe would hang the thread, and opening a device may have side effects. Below the folders
// of Confine, links that lead out of them are never followed, even those created concurrently.
//
// Read, Write and Match perform the file operations of TensorFlow's ops, with TensorFlow's errors: the code that corresponds to the
// system's error number, and the text "name; No such file or directory".
package files
