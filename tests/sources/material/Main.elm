module Main exposing (main)

import Html exposing (Html, div, text)
import Html.Attributes exposing (class)


type Msg
    = Load (List ( Int, String ))
    | Clear


view : List ( Int, String ) -> Html Msg
view rows =
    div [ class "rows" ] <|
        List.map (\( number, name ) -> text <| String.fromInt number ++ "|" ++ name) <|
            List.filter (Tuple.first >> (<) 3) rows


pipeline : Int -> Int
pipeline n =
    n |> (+) 1 |> (*) 2 |> (\x -> x <| x)


main =
    -- <| and |> are operators, and so is <|>
    view <|[ ( 4, "four" ) ]
