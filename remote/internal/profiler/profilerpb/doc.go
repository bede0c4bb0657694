// Package profilerpb has the messages of TensorFlow's profiler.
package profilerpb
