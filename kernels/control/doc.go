// Package control holds the ops that route values: identities, switches and merges, calls and loops of
// functions, feeds, fetches and transfers, and the ops that check or print what passes.
//
// References to variables are passed on as they are; the op that computes reads them.
package control
