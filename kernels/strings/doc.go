// Package strings implements the ops on strings.
package strings
