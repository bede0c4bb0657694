// Package strings holds the ops on strings.
package strings
