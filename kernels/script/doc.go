// Package script implements the ops that call functions of the program that owns the server: those of a Python program (tf.py_func,
// tf.numpy_function, tf.py_function, Dataset.from_generator) and of a Go program that embeds it. Other servers have nothing to call, and
// reject these ops' nodes.
package script
