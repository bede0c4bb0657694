// Package control holds the ops that route values: identities, switches and merges, calls and loops of functions, feeds, fetches and
// transfers, and the ops that check or print values.
//
// References to variables are passed on unchanged; the op that computes reads them.
package control
