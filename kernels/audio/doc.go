// Package audio holds the ops on sound: WAV files, spectrograms, and the coefficients that speech is recognized by.
//
// Samples are float32 between -1 and 1, of shape [frames, channels]. Spectra are computed in float64.
package audio
