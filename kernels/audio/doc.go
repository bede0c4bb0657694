// Package audio implements the ops on sound: WAV files, spectrograms, and coefficients for speech recognition.
//
// Samples are float32 between -1 and 1, with shape [frames, channels]. Spectra are computed in float64.
package audio
