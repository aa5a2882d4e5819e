// SPDX-License-Identifier: Apache-2.0
// Certificates for tests, all but one valid until 2126: of an authority, of a server at localhost, 127.0.0.1 and ::1,
// and of a client. Their keys are public; do not trust them elsewhere.

/** The certificate of the authority that signed `serverPair` and `clientPair`. */
export const authority: string = `-----BEGIN CERTIFICATE-----
MIIBrzCCAVWgAwIBAgIUJVpPt3AHjhCe00JKMG6SBhIq7HUwCgYIKoZIzj0EAwIw
JDEiMCAGA1UEAwwZZG1fZW52X3JwYyB0ZXN0IGF1dGhvcml0eTAgFw0yNjExMjEx
MDUyMDhaGA8yMTI2MTAyODEwNTIwOFowJDEiMCAGA1UEAwwZZG1fZW52X3JwYyB0
ZXN0IGF1dGhvcml0eTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNLMiUOCoQ3O
YyizupbO7Yz7zKMPH1rDGnwLaTDAtpC4zsN7DVfaoiFP7183qXjeoHq5LLykpHlr
CKPAtdQAgGKjYzBhMB0GA1UdDgQWBBQ3Iq/gLMu/JAIDiTTCtG1zBFYNeTAfBgNV
HSMEGDAWgBQ3Iq/gLMu/JAIDiTTCtG1zBFYNeTAPBgNVHRMBAf8EBTADAQH/MA4G
A1UdDwEB/wQEAwIBBjAKBggqhkjOPQQDAgNIADBFAiEA2YJ2bD/Iw6AX2Q4BMSFi
foxLLD/4+D8OQc6DyblP45YCIHAY+lrCwGqusxEFeoXhvSvbplrwE1uoMDclwciW
kacG
-----END CERTIFICATE-----`;

/** A server's certificate and its key. */
export const serverPair: { readonly cert: string; readonly key: string } = {
  cert: `-----BEGIN CERTIFICATE-----
MIIBqTCCAU+gAwIBAgIUAdjb31NgnHZLwy7uQ1j9t/vkBWowCgYIKoZIzj0EAwIw
JDEiMCAGA1UEAwwZZG1fZW52X3JwYyB0ZXN0IGF1dGhvcml0eTAgFw0yNjExMjEx
MDUyMDhaGA8yMTI2MTAyODEwNTIwOFowETEPMA0GA1UEAwwGc2VydmVyMFkwEwYH
KoZIzj0CAQYIKoZIzj0DAQcDQgAE48Sv5fnZvgEJ876JKqs7WyQ2AzyCuLKSqB75
J4SF/nsR1CRBvAZyF8I81d7YwJ4289PzZYZdIDipnyixNG9zxaNwMG4wLAYDVR0R
BCUwI4IJbG9jYWxob3N0hwR/AAABhxAAAAAAAAAAAAAAAAAAAAABMB0GA1UdDgQW
BBQSinCPJ4ZsKjAX57s7HjSG/R5BkjAfBgNVHSMEGDAWgBQ3Iq/gLMu/JAIDiTTC
tG1zBFYNeTAKBggqhkjOPQQDAgNIADBFAiAVvbkxy6rcnYcecIpo4rlTYsUAfcgV
XXe8E4RZ+4JV5AIhAPhB0MpE+sssk3las27TnuOiV6icFY01rig3GhvpnCMC
-----END CERTIFICATE-----`,
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgDnhjwSZ6OhCA/b2l
IH2dJ2x8po4ebeWagSDM2Gc+1yChRANCAATjxK/l+dm+AQnzvokqqztbJDYDPIK4
spKoHvknhIX+exHUJEG8BnIXwjzV3tjAnjbz0/Nlhl0gOKmfKLE0b3PF
-----END PRIVATE KEY-----`,
};

/** A client's certificate and its key. */
export const clientPair: { readonly cert: string; readonly key: string } = {
  cert: `-----BEGIN CERTIFICATE-----
MIIBMjCB2AIUAdjb31NgnHZLwy7uQ1j9t/vkBWswCgYIKoZIzj0EAwIwJDEiMCAG
A1UEAwwZZG1fZW52X3JwYyB0ZXN0IGF1dGhvcml0eTAgFw0yNjExMjExMDUyMDha
GA8yMTI2MTAyODEwNTIwOFowETEPMA0GA1UEAwwGY2xpZW50MFkwEwYHKoZIzj0C
AQYIKoZIzj0DAQcDQgAEfTXcq0xSKfdSu6njvuscYhfSe+yHpgL5arMD+TEWrRw3
5nA5lMQhZLqtz8AXFniwPLYnXUP3hmD7sHj/eaLBKzAKBggqhkjOPQQDAgNJADBG
AiEA8tcMjusPETEwtejAfowG+fDvzkkXxEigkVaK00kgw/QCIQCv2+ZEpQJtsC+Q
cFqUeksGMz91RRmwgf8U3TqgQPEfsg==
-----END CERTIFICATE-----`,
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg8Ce6RwUSVBxR2fMZ
mnMTXH0giaBLWj7/86GSsdzRmS2hRANCAAR9NdyrTFIp91K7qeO+6xxiF9J77Iem
AvlqswP5MRatHDfmcDmUxCFkuq3PwBcWeLA8tiddQ/eGYPuweP95osEr
-----END PRIVATE KEY-----`,
};

/** A server's certificate that expired in 2025, signed by itself, and its key. */
export const expiredPair: { readonly cert: string; readonly key: string } = {
  cert: `-----BEGIN CERTIFICATE-----
MIIBXzCCAQagAwIBAgIBATAKBggqhkjOPQQDAjARMQ8wDQYDVQQDDAZzZXJ2ZXIw
HhcNMjUwMTAxMDAwMDAwWhcNMjUwMTAyMDAwMDAwWjARMQ8wDQYDVQQDDAZzZXJ2
ZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATeIjxtcoIB2+MSjOwBZsPhsJnw
vT7A/nfEPyARO2FtyHso3ce0/GAMGf9+s+a74TisRNs/f4Rr1x+wf6Us8Vc7o08w
TTAsBgNVHREEJTAjgglsb2NhbGhvc3SHBH8AAAGHEAAAAAAAAAAAAAAAAAAAAAEw
HQYDVR0OBBYEFAbNzc+7e57zZ/PaaaTLFGFlGnTVMAoGCCqGSM49BAMCA0cAMEQC
IH3XEQHbzn6P3EjeRggRdMzN7UIzCJl0BpICvMCyurxZAiBeB5Megj2nyW5Tefl3
ybMhqb/lITkfKKloLdwVlIsPcA==
-----END CERTIFICATE-----`,
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg5FbMTWdm6fgYIBbj
RmwVzVgF573LU6YHgwx9+/hG3OKhRANCAATeIjxtcoIB2+MSjOwBZsPhsJnwvT7A
/nfEPyARO2FtyHso3ce0/GAMGf9+s+a74TisRNs/f4Rr1x+wf6Us8Vc7
-----END PRIVATE KEY-----`,
};
