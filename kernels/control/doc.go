// Package control holds the ops that route values: identities, switches and merges, calls and loops of functions,
// feeds, fetches and transfers, and those that check or print what passes.
//
// References to variables are handed on as they are; the op that computes reads them.
package control
